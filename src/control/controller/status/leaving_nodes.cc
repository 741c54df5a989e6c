// What a controller does with nodes that will be taken away soon: others play their roles, in one
// planned view, or the job is drained before they go.

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "control/controller/controller_core.h"

namespace evermoe {

using Phase = RoleState::Phase;

void ControllerCore::handle(const NodeLeaving& event) {
  if (!nodes_.is_there(event.node) || nodes_.is_leaving(event.node)) return;
  nodes_.leave(event.node);
  tell(absl::StrCat("node ", event.node.value, " leaves"));
}

// Those that play roles first: where no other can take their place, all stay to the end.
void ControllerCore::let_go() {
  std::vector<Node> leaving = nodes_.leaving();
  std::ranges::stable_partition(leaving, [&](Node node) { return roles_.workers_on(node) > 0; });
  for (const Node node : leaving) {
    if (has_ended_ || is_draining_) return;
    let_go(node);
  }
}

void ControllerCore::let_go(Node node) {
  if (roles_.workers_on(node) == 0) {
    nodes_.forget(node);
    actions_.emplace_back(DismissNode{node});
    return;
  }
  // A recovery that is under way may need what is there.
  if (!is_open() || journal_.is_loading()) return;
  // The job is at its end, and so is the node.
  if (roles_.have_all_finished() || roles_.is_any_released()) return;
  if (options_.strategy.keeps_copies && !copies_.is_known())
    return open_next_view(absl::StrCat("node ", node.value, " leaves: who holds which copies?"));
  if (!can_others_take_over(node)) {
    is_draining_ = true;
    const std::string why = absl::StrCat(
        "node ", node.value, " leaves and no other can take its place: all save and end");
    tell(why);
    actions_.emplace_back(DrainJob{why});
    return;
  }
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    if (roles_[Rank(r)].phase == Phase::kNone || roles_[Rank(r)].node != node) continue;
    const std::string why = absl::StrCat("node ", node.value, " leaves");
    kill_and_lose(Rank(r), why, why);
    if (has_ended_) return;
  }
  let_go(node);
}

bool ControllerCore::can_others_take_over(Node node) const {
  return copies_.survives_loss_of(node, roles_) &&
         room(roles_, nodes_, options_.nodes, now_) >= roles_.workers_on(node);
}

}  // namespace evermoe
