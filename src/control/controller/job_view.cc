#include "control/controller/job_view.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace evermoe {
namespace {

constexpr Step kNoEnd(std::numeric_limits<int64_t>::max());

}  // namespace

void JobView::on_joined(const MemberJoined& event) {
  View& epoch = stage_epochs_[stage_of(event.rank)];
  epoch = std::max(epoch, event.stage_epoch);
  learn(event);
  if (event.newest_view > number_ || (event.newest_view == number_ && !event.is_open)) {
    is_open_ = false;
    number_ = std::max(number_, event.newest_view);
  }
}

// A host that does not know yet that it has lost the job may have begun another run: views of later
// ones are newer. What this controller has planned it knows itself.
void JobView::learn(const MemberJoined& event) {
  const Step to = step_of(event.newest);
  const bool is_newer = std::pair(event.newest_view, to) >= std::pair(past_told_in_, past_.to);
  if (has_planned_ || event.run == View(0) || !is_newer) return;
  past_ = {event.run, to, event.lanes};
  past_told_in_ = event.newest_view;
}

bool JobView::is_of_other_run(const Past& past) const {
  if (past.run == View(0) || past_.run == View(0)) return false;
  const Step both = std::min(past.to, past_.to);
  return past.run != past_.run || view_at(past.lanes, both) != view_at(past_.lanes, both);
}

void JobView::adopt(const MemberJoined& event) {
  const View is_in = event.is_open ? event.newest_view : View(0);
  const auto [found, is_new] = adopted_.try_emplace(event.rank, is_in);
  if (!is_new && --adopted_in_[found->second] == 0) adopted_in_.erase(found->second);
  found->second = is_in;
  ++adopted_in_[is_in];
  is_open_ = number_ > View(0) && adopted_in_.size() == 1 && adopted_in_.contains(number_);
}

void JobView::open_next() {
  number_ = next();
  is_open_ = false;
}

Plan JobView::plan(const RoleTable& roles, const CopyHolders& holders,
                   std::optional<MembershipChange> wanted) {
  PlanInputs inputs;
  Step complete(-1);
  inputs.view = number_;
  inputs.topology = &topology_;
  inputs.holders = holders.holders_of;
  inputs.strategy = options_.strategy;
  inputs.script = options_.elastic.script;
  inputs.wanted = std::move(wanted);
  for (const RoleState& role : roles.all()) {
    inputs.table.push_back({role.address, role.since});
    inputs.reports.push_back(*role.report);
    complete = std::max(complete, role.report->complete_window);
  }
  inputs.former_holders = former_holders_.of(complete);
  inputs.go_back_reason = std::exchange(go_back_reason_, "");
  inputs.restart_reason = std::exchange(restart_reason_, "");
  return make_plan(inputs);
}

void JobView::open(const Plan& plan) {
  for (const int stage : plan.rolled_back) stage_epochs_[static_cast<size_t>(stage)] = number_;
  if (plan.restart_all) {
    std::fill(stage_epochs_.begin(), stage_epochs_.end(), number_);
    past_.run = number_;
  }
  past_.lanes = plan.membership;
  past_.to = kNoEnd;
  has_planned_ = true;
  former_holders_.on_chosen(plan.window, plan.holders);
  renews_ = plan.renews;
  is_open_ = true;
}

}  // namespace evermoe
