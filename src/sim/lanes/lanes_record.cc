#include "sim/lanes/lanes_record.h"

#include <algorithm>

namespace evermoe {

void LanesRecord::on_commit(const Plan& plan, Step step) {
  if (is_given_up(plan)) return;
  const bool is_former = plan.view < newest_.first;
  if (!is_former) forget_changes_of_the_former_host(plan, step);
  const Step from = is_former ? std::max(base_, newest_.second) : base_;
  for (const MembershipChange& change : plan.membership) {
    if (change.step > step || !changes_at(plan.membership, change.step)) continue;
    if (change.step <= from) continue;  // at the base: on_resumed()
    std::erase_if(history_, [&](const MembershipChange& old) { return old.step >= change.step; });
    history_.push_back(change);
  }
  newest_ = std::max(newest_, {plan.view, step});
}

// A plan has no changes from before the oldest state to which anybody may go back.
void LanesRecord::forget_changes_of_the_former_host(const Plan& plan, Step step) {
  const Step oldest = std::max(plan.window >= Step(0) ? plan.window : plan.base, base_);
  std::erase_if(history_, [&](const MembershipChange& old) {
    return oldest < old.step && old.step <= step &&
           std::ranges::count(plan.membership, old.step, &MembershipChange::step) == 0;
  });
}

void LanesRecord::on_resumed(const Plan& plan, Step base) {
  if (is_given_up(plan)) return;
  beginning_ = plan.view;
  base_ = base;
  std::erase_if(history_, [&](const MembershipChange& old) { return old.step > base; });
  MembershipChange now{.step = base, .resting = resting_at(plan.membership, Step(0))};
  if (now.resting == resting_at(history_, base)) return;
  std::erase_if(history_, [&](const MembershipChange& old) { return old.step == base; });
  history_.push_back(std::move(now));
}

}  // namespace evermoe
