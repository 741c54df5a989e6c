#include "control/controller/job_view.h"

#include <algorithm>
#include <utility>

namespace evermoe {

void JobView::on_joined(const MemberJoined& event) {
  View& epoch = stage_epochs_[stage_of(event.rank)];
  epoch = std::max(epoch, event.stage_epoch);
  // A host that does not know yet that it has lost the job may have begun another run: views of
  // later ones are newer.
  if (event.run > View(0) && event.newest_view >= run_told_in_) {
    run_ = event.run;
    run_told_in_ = event.newest_view;
  }
  if (event.newest_view > number_ || (event.newest_view == number_ && !event.is_open)) {
    is_open_ = false;
    number_ = std::max(number_, event.newest_view);
  }
}

void JobView::adopt(const MemberJoined& event) {
  const View is_in = event.is_open ? event.newest_view : View(0);
  const auto [found, is_new] = adopted_.try_emplace(event.rank, is_in);
  if (!is_new && --adopted_in_[found->second] == 0) adopted_in_.erase(found->second);
  found->second = is_in;
  ++adopted_in_[is_in];
  is_open_ = adopted_in_.size() == 1 && adopted_in_.contains(number_);
}

void JobView::open_next() {
  number_ = next();
  is_open_ = false;
}

Plan JobView::plan(const RoleTable& roles, const CopyHolders& holders,
                   std::optional<MembershipChange> wanted) {
  PlanInputs inputs;
  inputs.view = number_;
  inputs.topology = &topology_;
  inputs.holders = holders.holders_of;
  inputs.former_holders = former_holders_;
  inputs.strategy = options_.strategy;
  inputs.script = options_.elastic.script;
  inputs.wanted = std::move(wanted);
  for (const RoleState& role : roles.all()) {
    inputs.table.push_back({role.address, role.since});
    inputs.reports.push_back(*role.report);
  }
  inputs.go_back_reason = std::exchange(go_back_reason_, "");
  inputs.restart_reason = std::exchange(restart_reason_, "");
  return make_plan(inputs);
}

void JobView::open(const Plan& plan) {
  for (const int stage : plan.rolled_back) stage_epochs_[static_cast<size_t>(stage)] = number_;
  if (plan.restart_all) {
    std::fill(stage_epochs_.begin(), stage_epochs_.end(), number_);
    run_ = run_told_in_ = number_;
  }
  former_holders_ = plan.holders;
  renews_ = plan.renews;
  is_open_ = true;
}

}  // namespace evermoe
