// What a controller does about nodes that play more roles than their share.

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "control/controller/controller_core.h"
#include "control/controller/moves/crowded_nodes.h"

namespace evermoe {
namespace {

// After one that was called off the next one comes later each time, up to so many doublings.
constexpr int kReliefDoublingsMax = 7;

bool was_called_off_since(const MoveRecord& record, absl::Duration newest_node_came) {
  return record.state == MoveRecord::State::kCalledOff && record.asked >= newest_node_came;
}

// When roles may move out of crowded nodes: other machines may come with the newest one.
absl::Duration relief_due(const std::vector<MoveRecord>& records, absl::Duration newest_node_came,
                          const ControllerOptions& options) {
  const auto end = std::find_if(records.rbegin(), records.rend(), [&](const MoveRecord& record) {
    return !was_called_off_since(record, newest_node_came);
  });
  const auto called_off = static_cast<int>(end - records.rbegin());
  const absl::Duration due = newest_node_came + options.elastic.grow_wait;
  if (called_off == 0) return due;
  const int doublings = std::min(called_off - 1, kReliefDoublingsMax);
  return std::max(due, records.back().asked + options.backoff_max * (int64_t{1} << doublings));
}

std::string rooms(const std::vector<RoleMove>& moves) {
  std::set<Node> nodes;
  for (const RoleMove& move : moves) nodes.insert(move.node);
  const std::string names = absl::StrJoin(
      nodes, ", ", [](std::string* out, Node node) { absl::StrAppend(out, node.value); });
  return nodes.size() == 1 ? absl::StrCat("node ", names, " has room")
                           : absl::StrCat("nodes ", names, " have room");
}

}  // namespace

// A machine that was lost is there again, or another one has come. A step takes as long as on the
// fullest node, and there as much longer as it plays more roles than its share.
void ControllerCore::relieve_crowded() {
  if (now_ < next_relief_look_) return;
  next_relief_look_ = now_ + options_.relief_look;
  if (!may_relieve() || now_ < relief_due(moving_.records(), newest_node_came_, options_)) return;
  const Relief relief = relieve_crowded_nodes(now_, {.roles = roles_,
                                                     .nodes = nodes_,
                                                     .restarts = rules_.restarts(),
                                                     .resting = membership_.resting(),
                                                     .slow = slow_nodes_,
                                                     .nodes_at_start = options_.nodes});
  if (relief.moves.empty()) return;
  const double excess = 1 - static_cast<double>(share()) / relief.most;
  if (!payoff_of_move(excess * watch_.mean_step()).is_positive) return;
  if (begin_relief(relief.moves)) return;
  // Where those that keep the copies of one are among the others they move one after the other.
  for (const RoleMove& move : relief.moves) {
    if (begin_relief({move})) return;
  }
}

// Roles that rest are for newcomers to wake.
bool ControllerCore::may_relieve() const {
  if (!options_.strategy.keeps_copies() || moving_.is_under_way() || !is_calm()) return false;
  return !options_.elastic.is_enabled ||
         (membership_.is_known() && membership_.is_settled() && membership_.resting().empty());
}

bool ControllerCore::begin_relief(const std::vector<RoleMove>& moves) {
  std::vector<Rank> roles;
  std::vector<Node> to;
  for (const RoleMove& move : moves) {
    roles.push_back(move.rank);
    to.push_back(move.node);
  }
  return begin_move(roles, to, rooms(moves)).ok();
}

}  // namespace evermoe
