// Scenarios of failures as readable transcripts: who reports what, for the tests of plans.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "recovery/plan/make_plan.h"

namespace evermoe {

// A job of 3 stages x 2 lanes at step 20, whose window 16 is complete; each rank's copies are at
// the next.
class Scenario {
 public:
  Scenario() : topology_({2, 2, 2}, 3) {
    for (int r = 0; r < 6; ++r) {
      Report report;
      report.view = View(2);
      report.rank = Rank(r);
      report.stage_epoch = View(1);
      report.newest = verdict_commit(Step(20));
      report.state = Step(20);
      report.has_state = true;
      report.held_state = Step(19);
      report.base = Step(0);
      report.complete_window = Step(16);
      report.held = {{Rank(r), Step(16), 4}, {Rank((r + 5) % 6), Step(16), 4}};
      std::sort(report.held.begin(), report.held.end(),
                [](auto& a, auto& b) { return a.owner < b.owner; });
      reports_.push_back(report);
    }
  }
  Scenario& lost(int rank) {
    const Rank r(rank);
    reports_[static_cast<size_t>(rank)] = Report{.view = View(2), .rank = r};
    return *this;
  }
  Scenario& is_broken(int rank) {
    return reports_[static_cast<size_t>(rank)].is_broken = true, *this;
  }
  Scenario& has_verdict(int rank, int64_t step) {
    Report& report = reports_[static_cast<size_t>(rank)];
    report.newest = verdict_commit(Step(step));
    report.state = Step(step);
    return *this;
  }
  // It was gathering its state when the view ended.
  Scenario& without_state(int rank) {
    return reports_[static_cast<size_t>(rank)].has_state = false, *this;
  }
  // Of the windows that the rank holds.
  Scenario& holds_gradients(int rank, int64_t steps) {
    for (HeldWindow& held : reports_[static_cast<size_t>(rank)].held) held.gradients = steps;
    return *this;
  }
  Scenario& experts_moved(int rank, int64_t state) {
    return reports_[static_cast<size_t>(rank)].experts_moved = Step(state), *this;
  }
  // Nobody holds a window of it.
  Scenario& without_copies(int owner) {
    for (Report& report : reports_)
      std::erase_if(report.held, [&](const HeldWindow& held) { return held.owner == Rank(owner); });
    return *this;
  }
  // No commit names a complete window, but copies of the first one are where they were.
  Scenario& no_window_known() {
    for (Report& report : reports_) {
      report.complete_window = Step(-1);
      for (HeldWindow& held : report.held) held = {held.owner, Step(0), report.state.value};
    }
    return *this;
  }
  Scenario& at_the_base() {
    for (Report& report : reports_) report.newest = verdict_commit(Step(0)), report.state = Step(0);
    return *this;
  }
  Scenario& joined_in(int rank, uint32_t view) {
    return reports_[static_cast<size_t>(rank)].stage_epoch = View(view), *this;
  }
  Scenario& resuming(int rank) {
    return reports_[static_cast<size_t>(rank)].base = Step(-1), *this;
  }
  Scenario& no_window() {
    for (Report& report : reports_) report.complete_window = Step(-1), report.held.clear();
    return *this;
  }
  // All that live are at the newest state, also those that had to leave their steps.
  Scenario& all_at_the_newest_state() {
    for (Report& report : reports_) {
      if (report.stage_epoch != View(0)) report.held_state = report.state;
    }
    return *this;
  }
  Scenario& at_state(int rank, int64_t step) {
    return reports_[static_cast<size_t>(rank)].held_state = Step(step), *this;
  }
  Scenario& holds_whole(int rank, int owner, int64_t step) {
    reports_[static_cast<size_t>(rank)].whole_states.push_back({Rank(owner), Step(step)});
    return *this;
  }
  // Its process has come to the stage at that state, without going back.
  Scenario& logs_since(int rank, int64_t step) {
    return reports_[static_cast<size_t>(rank)].logged_since = Step(step), *this;
  }
  // It was sent back by an earlier plan, and runs steps again.
  Scenario& catches_up(int rank) {
    Report& report = reports_[static_cast<size_t>(rank)];
    return report.catches_up_to = report.state, *this;
  }
  // It takes that state whole, by an earlier plan.
  Scenario& awaits(int rank, int64_t step) {
    return reports_[static_cast<size_t>(rank)].awaits_state = Step(step), without_state(rank);
  }
  Scenario& unprotected() { return strategy_ = strategy_of(StrategyKind::kNone), *this; }
  Scenario& under(StrategyKind kind) { return strategy_ = strategy_of(kind), *this; }
  // So many stages' second lanes rest from that state on, as all know.
  Scenario& rest_since(int64_t step, RestingRoles resting) {
    for (Report& report : reports_) {
      if (report.stage_epoch == View(0)) continue;
      report.plan_view = View(1);
      report.membership.push_back({.step = Step(step), .resting = resting});
    }
    return *this;
  }
  Scenario& wants(RestingRoles resting) {
    wanted_ = MembershipChange{.resting = std::move(resting)};
    return *this;
  }
  Scenario& all_go_back(const std::string& why) { return go_back_reason_ = why, *this; }
  Plan plan() const {
    PlanInputs inputs;
    inputs.view = View(2);
    inputs.topology = &topology_;
    inputs.table.resize(6);
    inputs.reports = reports_;
    inputs.holders.resize(6);
    for (int r = 0; r < 6; ++r) inputs.former_holders.push_back({Rank((r + 1) % 6)});
    inputs.strategy = strategy_;
    inputs.go_back_reason = go_back_reason_;
    inputs.wanted = wanted_;
    return make_plan(inputs);
  }

 private:
  Topology topology_;
  std::vector<Report> reports_;
  Strategy strategy_;
  std::string go_back_reason_;
  std::optional<MembershipChange> wanted_;
};

inline std::string story(const Plan& plan) { return absl::StrJoin(plan.reasons, "\n"); }

}  // namespace evermoe
