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

namespace evermoe {
namespace {

struct MoveOptions {
  std::string where;
  std::string keys;
  std::vector<std::string> roles;
  int32_t to = -1;
  int32_t drain = -1;
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

absl::StatusOr<MoveWanted> wish_of(const MoveOptions& options, const JobStatus& status) {
  MoveWanted wish;
  for (const std::string& name : options.roles) {
    ASSIGN_OR_RETURN(const Rank rank, rank_of(name, status));
    if (std::ranges::count(wish.roles, rank) == 0) wish.roles.push_back(rank);
  }
  if (options.to >= 0) wish.to = Node(options.to);
  if (options.drain >= 0) wish.drained = Node(options.drain);
  return wish;
}

absl::StatusOr<MoveAnswer> ask(const MoveOptions& options) {
  ASSIGN_OR_RETURN(OperatorTarget target, find_job(options.where, options.keys));
  OperatorLine line(std::move(target), real_clock());
  ASSIGN_OR_RETURN(const OperatorLine::Answer job, line.ask());
  if (job.end) return MoveAnswer{false, "the job has ended"};
  ASSIGN_OR_RETURN(const MoveWanted wish, wish_of(options, *job.status));
  ASSIGN_OR_RETURN(const OperatorLine::Answer answer, line.ask_for(wish));
  return answer.move ? *answer.move : MoveAnswer{false, "the job has ended"};
}

absl::StatusOr<int> move(const MoveOptions& options) {
  if (options.roles.empty() == (options.drain < 0))
    return InvalidInput("found neither or both of --role and --drain, allowed: one of them");
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
  command->add_flag("--json", options->json, "one JSON object: accepted, reason");
  commands[command] = [options] { return move(*options); };
}

}  // namespace evermoe
