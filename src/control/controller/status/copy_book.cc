#include "control/controller/status/copy_book.h"

#include <algorithm>

namespace evermoe {

void CopyBook::on_plan(const Plan& plan, const RoleTable& roles) {
  is_known_ = true;
  membership_ = plan.membership;
  window_ = plan.restart_all ? Step(-1) : plan.window;
  holders_ = plan.holders;
  settles_at_ = plan.renews ? plan.state : Step(-1);
  first_step_ = Step(-1);
  has_settled_ = false;
  held_by_.assign(static_cast<size_t>(roles.size()), {});
  const int64_t gradients = needs_gradients_ ? plan.state.value - plan.window.value : 0;
  for (int32_t r = 0; r < roles.size(); ++r) {
    for (const HeldWindow& held : roles[Rank(r)].report->held) {
      const bool is_usable = held.window == window_ && held.gradients >= gradients;
      if (is_usable && held.owner.value < roles.size())
        held_by_[static_cast<size_t>(held.owner.value)].push_back(Rank(r));
    }
  }
}

void CopyBook::on_step(Step step, Step complete_window) {
  if (!is_known_) return;
  window_ = std::max(window_, complete_window);
  if (first_step_ < Step(0)) first_step_ = step;
  if (step <= first_step_ || has_settled_ || window_ < settles_at_) return;
  has_settled_ = true;
  held_by_ = holders_;
  for (size_t r = 0; r < held_by_.size(); ++r) held_by_[r].push_back(Rank(static_cast<int32_t>(r)));
}

// Of each role; none where no copy is needed.
std::vector<std::vector<Node>> CopyBook::keepers(const RoleTable& roles) const {
  std::vector<std::vector<Node>> keepers;
  if (window_ < Step(0)) return keepers;
  const RestingRoles resting = resting_at(membership_, window_);
  for (size_t r = 0; r < held_by_.size(); ++r) {
    if (std::ranges::binary_search(resting, Rank(static_cast<int32_t>(r)))) continue;
    std::vector<Node>& nodes = keepers.emplace_back();
    for (const Rank rank : held_by_[r]) {
      if (roles[rank].phase() == RoleState::Phase::kJoined) nodes.push_back(roles[rank].node);
    }
  }
  return keepers;
}

SurvivableLosses CopyBook::survivable(const RoleTable& roles) const {
  if (!is_protected_) return {.is_known = true};
  if (!is_known_) return {.is_protected = true};
  std::vector<Node> in_use;
  for (const RoleState& role : roles.all()) in_use.push_back(role.node);
  return survivable_losses(keepers(roles), std::move(in_use));
}

bool CopyBook::survives_loss_of(Node node, const RoleTable& roles) const {
  if (!is_protected_ || !is_known_) return false;
  const auto is_only_there = [node](const std::vector<Node>& nodes) {
    return std::all_of(nodes.begin(), nodes.end(), [node](Node other) { return other == node; });
  };
  const auto all = keepers(roles);
  const auto& states = roles.all();
  return std::none_of(all.begin(), all.end(), is_only_there) &&
         std::any_of(states.begin(), states.end(),
                     [node](const RoleState& role) { return role.node != node; });
}

}  // namespace evermoe
