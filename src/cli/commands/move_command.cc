// evermoe move: roles of a running job go to other nodes while it trains.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/exit_codes.h"
#include "cli/commands/commands.h"
#include "cli/operators/operator_line.h"
#include "cli/operators/wanted_places.h"
#include "env/files.h"

namespace evermoe {
namespace {

struct MoveOptions {
  std::string where;
  std::string keys;
  std::vector<std::string> roles;
  int32_t to = -1;
  int32_t drain = -1;
  std::string places;
  bool json = false;
};

absl::StatusOr<Rank> rank_of(const std::string& name, const JobStatus& status) {
  const auto found = std::ranges::find(status.roles, name, &RoleStatus::name);
  if (found != status.roles.end()) return found->rank;
  std::vector<std::string> names;
  for (const RoleStatus& role : status.roles) names.push_back(role.name);
  constexpr size_t kNamesMax = 16;
  const bool is_long = names.size() > kNamesMax;
  names.resize(std::min(names.size(), kNamesMax));
  return InvalidInput(absl::StrCat(
      "--role: found ", name, ", allowed: ", absl::StrJoin(names, ", "), is_long ? ", ..." : ""));
}

absl::StatusOr<std::string> read_places(const std::string& path) {
  absl::StatusOr<std::string> text = read_file(real_files(), path, kPlacesBytesMax);
  if (text.ok()) return text;
  return InvalidInput(absl::StrCat("--rebalance: ", std::string(text.status().message())));
}

absl::StatusOr<MoveWanted> wish_of(const MoveOptions& options, const JobStatus& status) {
  if (!options.places.empty()) {
    ASSIGN_OR_RETURN(const std::string text, read_places(options.places));
    return wanted_places(text, options.places, status);
  }
  MoveWanted wish;
  for (const std::string& name : options.roles) {
    ASSIGN_OR_RETURN(const Rank rank, rank_of(name, status));
    if (std::ranges::count(wish.roles, rank) == 0) wish.roles.push_back(rank);
  }
  if (options.to >= 0) wish.to.assign(wish.roles.size(), Node(options.to));
  if (options.drain >= 0) wish.drained = Node(options.drain);
  return wish;
}

absl::StatusOr<MoveAnswer> ask(const MoveOptions& options) {
  ASSIGN_OR_RETURN(OperatorTarget target, find_job(options.where, options.keys));
  OperatorLine line(std::move(target), real_clock());
  ASSIGN_OR_RETURN(const OperatorLine::Answer job, line.ask());
  if (job.end) return MoveAnswer{false, "the job has ended"};
  ASSIGN_OR_RETURN(const MoveWanted wish, wish_of(options, *job.status));
  if (!options.places.empty() && wish.roles.empty())
    return MoveAnswer{true, absl::StrCat("all roles are where ", options.places, " wants them")};
  ASSIGN_OR_RETURN(const OperatorLine::Answer answer, line.ask_for(wish));
  return answer.move ? *answer.move : MoveAnswer{false, "the job has ended"};
}

absl::StatusOr<int> move(const MoveOptions& options) {
  const int wishes = !options.roles.empty() + (options.drain >= 0) + !options.places.empty();
  if (wishes != 1) {
    return InvalidInput(absl::StrCat("found ", wishes,
                                     " of --role, --drain and --rebalance, allowed: one of them"));
  }
  if (options.to >= 0 && options.roles.empty())
    return InvalidInput("found --to without --role, allowed: with it");
  ASSIGN_OR_RETURN(const MoveAnswer answer, ask(options));
  if (options.json) {
    const nlohmann::ordered_json json{{"accepted", answer.accepted}, {"reason", answer.reason}};
    std::cout << json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
    return answer.accepted ? kExitOk : kExitBadInput;
  }
  if (!answer.accepted) return InvalidInput(absl::StrCat("refused: ", answer.reason));
  std::cout << answer.reason << "\n";
  return kExitOk;
}

}  // namespace

void add_move_command(CLI::App& app, CommandTable& commands) {
  const auto options = std::make_shared<MoveOptions>();
  CLI::App* command = app.add_subcommand(
      "move",
      "Have roles of a running job played on other nodes, while it trains (docs/moves.md).");
  add_job_options(*command, options->where, options->keys);
  command->add_option("--role", options->roles, "a role, as STAGE.LANE; several move together")
      ->type_name("S.L");
  command->add_option("--to", options->to, "the node that plays them then (default: one with room)")
      ->type_name("NODE")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--drain", options->drain,
                   "a node: all its roles move, and it leaves the job when they have")
      ->type_name("NODE")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--rebalance", options->places,
                   "a file that says where roles are to be, all moved at once: a line of "
                   "\"1.0\" = 2 for each of them")
      ->type_name("FILE");
  command->add_flag("--json", options->json, "one JSON object: accepted, reason");
  commands[command] = [options] { return move(*options); };
}

}  // namespace evermoe
