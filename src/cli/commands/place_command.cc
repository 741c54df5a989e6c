// evermoe place: replicas of experts, the nodes that hold them, and what that survives.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "cli/commands/commands.h"
#include "cli/held_experts.h"
#include "cli/reports/place_report.h"
#include "env/files.h"

namespace evermoe {
namespace {

constexpr int64_t kLoadsBytesMax = 1 << 20;
constexpr int64_t kLoadMax = int64_t{1} << 40;
constexpr int kExpertsMax = 1 << 16;

struct PlaceOptions {
  PlaceRequest request;
  int experts = 0;
  std::string loads;
  std::string method = "mro_q";
  std::string from;
  std::vector<int> lost;
  bool explain = false;
  bool json = false;
};

absl::StatusOr<std::vector<int64_t>> parse_loads(const std::string& text,
                                                 const std::string& origin) {
  std::vector<int64_t> loads;
  for (const auto part : absl::StrSplit(text, absl::ByAnyChar(", \t\r\n"), absl::SkipEmpty())) {
    int64_t load = 0;
    if (!absl::SimpleAtoi(part, &load) || load < 0 || load > kLoadMax) {
      return InvalidInput(absl::StrCat(origin, ": found \"",
                                       absl::Utf8SafeCEscape(part.substr(0, 40)),
                                       "\", allowed: numbers of tokens, or a file with them"));
    }
    loads.push_back(load);
  }
  if (loads.empty() || loads.size() > kExpertsMax) {
    return InvalidInput(
        absl::StrCat(origin, ": found ", loads.size(), " loads, allowed: 1 to ", kExpertsMax));
  }
  return loads;
}

absl::StatusOr<std::vector<int64_t>> loads_of(const PlaceOptions& options) {
  if ((options.experts > 0) == !options.loads.empty()) {
    return InvalidInput("place: allowed: either --experts (with equal loads) or --loads");
  }
  if (options.experts > 0) return std::vector<int64_t>(static_cast<size_t>(options.experts), 1);
  if (!real_files().exists(options.loads)) return parse_loads(options.loads, "--loads");
  const absl::StatusOr<std::string> text = read_file(real_files(), options.loads, kLoadsBytesMax);
  if (!text.ok()) return InvalidInput(std::string(text.status().message()));
  return parse_loads(*text, options.loads);
}

absl::StatusOr<int> place(const PlaceOptions& options) {
  PlaceRequest request = options.request;
  ASSIGN_OR_RETURN(request.loads, loads_of(options));
  ASSIGN_OR_RETURN(request.method, parse_placement_method(options.method));
  if (options.from.empty() && !options.lost.empty())
    return InvalidInput("place: found --lost without --from, allowed: both or neither");
  RETURN_IF_ERROR(check(request));
  if (!options.from.empty()) {
    ASSIGN_OR_RETURN(request.held,
                     load_held_experts(real_files(), options.from, options.lost, request.nodes,
                                       static_cast<int>(request.loads.size())));
  }
  ASSIGN_OR_RETURN(const PlaceReport report, report_placement(request));
  std::cout << (options.json ? to_json(report) : to_text(report, options.explain));
  return 0;
}

}  // namespace

void add_place_command(CLI::App& app, CommandTable& commands) {
  const auto options = std::make_shared<PlaceOptions>();
  CLI::App* command = app.add_subcommand("place",
                                         "Decide how many replicas each expert gets and which "
                                         "nodes hold them, say which failures that survives, and "
                                         "plan the move from an earlier placement.");
  command->add_option("--experts", options->experts, "number of experts, all with the same load")
      ->check(CLI::Range(1, kExpertsMax));
  command->add_option("--loads", options->loads,
                      "tokens of each expert as T,T,..., or a file with them");
  command->add_option("--nodes", options->request.nodes, "number of nodes")->required();
  command->add_option("--slots", options->request.slots, "experts that each node holds")
      ->required();
  command
      ->add_option("--faults", options->request.faults,
                   "fewest replicas of every expert, as far as they fit")
      ->capture_default_str();
  command
      ->add_option("--racks", options->request.racks,
                   "racks, which the nodes are divided into in order; 0 if not known")
      ->capture_default_str();
  command->add_option("--method", options->method, "how to place: mro_q, mro, spread or compact")
      ->capture_default_str();
  command
      ->add_option(
          "--from", options->from,
          "where the experts are now, as `evermoe place --json` printed it: says who sends "
          "which expert to whom")
      ->type_name("FILE.json");
  command
      ->add_option("--lost", options->lost,
                   "nodes of that file that have failed; the others get new numbers in their "
                   "order, new nodes come last")
      ->type_name("N,N,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_flag("--explain", options->explain,
                    "explain the placement instead of listing what each node holds");
  command->add_flag("--json", options->json, "print one JSON object");
  commands[command] = [options] { return place(*options); };
}

}  // namespace evermoe
