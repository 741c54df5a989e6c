#include "control/controller/moves/move_request.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {
namespace {

absl::Status check_role(Rank rank, const MoveSurroundings& around) {
  if (rank.value < 0 || rank.value >= around.roles.size())
    return InvalidInput(absl::StrCat("there is no role of rank ", rank.value));
  const std::string name = around.topology.name_of(rank);
  if (around.roles[rank].phase() != RoleState::Phase::kJoined)
    return InvalidInput(absl::StrCat("role ", name, " is played by nobody at the moment"));
  if (std::ranges::binary_search(around.resting, rank))
    return InvalidInput(absl::StrCat("role ", name, " rests: it has no state to move"));
  return absl::OkStatus();
}

absl::Status check_target(absl::Duration now, Node to, const MoveSurroundings& around) {
  const std::string name = absl::StrCat("node ", to.value);
  if (!around.nodes.is_there(to)) return InvalidInput(absl::StrCat(name, " is not in this job"));
  if (around.nodes.is_leaving(to)) return InvalidInput(absl::StrCat(name, " leaves"));
  if (!around.nodes.is_up(to) || around.nodes.is_in_doubt(to, now))
    return InvalidInput(absl::StrCat(name, " is not fit to play a role"));
  return absl::OkStatus();
}

// Somebody who keeps its copies does not move with it.
absl::Status check_holders(const std::vector<Rank>& roles, const MoveSurroundings& around) {
  for (const Rank rank : roles) {
    const auto& holders = around.holders.holders_of[static_cast<size_t>(rank.value)];
    const bool is_kept = std::ranges::any_of(
        holders, [&](Rank holder) { return std::ranges::count(roles, holder) == 0; });
    if (is_kept) continue;
    return InvalidInput(absl::StrCat("all that keep the copies of role ",
                                     around.topology.name_of(rank),
                                     " would move with it: move them one after the other"));
  }
  return absl::OkStatus();
}

// Where more can be played, the one with the fewest, and first of all one with a warm standby.
std::optional<Node> best_target(const std::vector<Node>& candidates,
                                const std::map<Node, int>& played, int most,
                                const StandbyBook& standbys) {
  std::optional<Node> best;
  const auto key = [&](Node node) {
    return std::pair(standbys.warm(node) == 0, played.contains(node) ? played.at(node) : 0);
  };
  for (const Node node : candidates) {
    if (key(node).second >= most) continue;
    if (!best || key(node) < key(*best)) best = node;
  }
  return best;
}

}  // namespace

absl::StatusOr<std::vector<RoleMove>> choose_moves(absl::Duration now,
                                                   const std::vector<Rank>& roles,
                                                   std::optional<Node> to,
                                                   const MoveSurroundings& around) {
  if (!around.options.strategy.keeps_copies()) {
    return InvalidInput(
        absl::StrCat("protection.strategy = ", std::string(to_string(around.options.strategy.kind)),
                     " keeps nothing in peers' memory that a role could be moved by"));
  }
  for (const Rank rank : roles) RETURN_IF_ERROR(check_role(rank, around));
  RETURN_IF_ERROR(check_holders(roles, around));
  if (to) RETURN_IF_ERROR(check_target(now, *to, around));
  std::map<Node, int> played;
  for (const Node node : around.nodes.usable(now)) played[node] = around.roles.workers_on(node);
  std::vector<Node> candidates = to ? std::vector{*to} : around.nodes.usable(now);
  std::erase_if(candidates, [&](Node node) {
    const bool is_left =
        std::ranges::any_of(roles, [&](Rank rank) { return around.roles[rank].node == node; });
    return !to && (is_left || around.nodes.is_doubted(node));
  });
  const int most = roles_at_start(around.roles.size(), around.options.nodes);
  std::vector<RoleMove> moves;
  for (const Rank rank : roles) {
    const std::string name = around.topology.name_of(rank);
    if (to && around.roles[rank].node == *to)
      return InvalidInput(absl::StrCat("role ", name, " is on node ", to->value, " already"));
    const auto node = best_target(candidates, played, most, around.standbys);
    if (!node) {
      return InvalidInput(
          absl::StrCat(to ? absl::StrCat("node ", to->value, " has") : "no other node has",
                       " room for role ", name, ": a node plays at most ", most, " of this job"));
    }
    ++played[*node];
    moves.push_back({rank, *node});
  }
  return moves;
}

}  // namespace evermoe
