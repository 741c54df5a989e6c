#include "control/controller/status/leaving_decision.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace evermoe {
namespace {

constexpr absl::Duration kNobodyInDoubt = -absl::InfiniteDuration();  // as of then

}  // namespace

std::vector<Node> nodes_that_leave(const RoleTable& roles, const NodeTable& nodes) {
  std::vector<Node> leaving = nodes.leaving();
  std::ranges::stable_partition(leaving, [&](Node node) { return roles.workers_on(node) > 0; });
  return leaving;
}

LeavingDecision decide_leaving(absl::Duration now, Node node, const LeavingState& state,
                               const ControllerOptions& options) {
  using Kind = LeavingDecision::Kind;
  const int workers = state.roles.workers_on(node);
  if (workers == 0) return {.kind = Kind::kDismiss};
  // A recovery that is under way may need what is there.
  if (!state.is_view_open || state.is_loading) return {};
  // The job is at its end, and so is the node.
  if (state.roles.have_all_finished() || state.roles.is_released()) return {};
  const std::string leaves = absl::StrCat("node ", node.value, " leaves");
  if (options.strategy.keeps_copies() && !state.copies.is_known())
    return {.kind = Kind::kOpenView, .why = leaves + ": who holds which copies?"};
  const bool has_room = room(state.roles, state.nodes, options.nodes, now) >= workers;
  const bool has_room_in_doubt =
      room(state.roles, state.nodes, options.nodes, kNobodyInDoubt) >= workers;
  const bool may_shrink = options.elastic.is_enabled &&
                          state.nodes.up_besides(node) >= std::max(1, options.elastic.nodes_min);
  const bool is_survived = state.copies.survives_loss_of(node, state.roles);
  const bool may_others_come =
      now < state.others_until && state.nodes.known() < options.nodes + options.spares;
  // A node in doubt is soon heard or lost; to drain the job could not be taken back.
  if (is_survived && !has_room && (may_others_come || has_room_in_doubt)) return {};
  const bool can_others_take_over = is_survived && (has_room || may_shrink);
  if (!can_others_take_over)
    return {.kind = Kind::kDrainJob,
            .why = leaves + " and no other can take its place: all save and end"};
  return {.kind = Kind::kMoveRoles, .why = leaves};
}

}  // namespace evermoe
