// What follows where copies that a plan names turn out to be unusable.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_join.h"
#include "control/controller/job_view.h"

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The next plan of a job of 2 stages at step 5, whose window 3 all hold, after one that `renews`.
Plan plan_after(bool renews) {
  const Topology topology({1, 1}, 2);
  const ControllerOptions options;
  JobView view(topology, options);
  view.open_next();
  Plan before;
  before.renews = renews;
  view.open(before);
  view.leave_copies_next("role 0.0: no source has a usable copy");
  view.open_next();
  RoleTable roles(2);
  for (int32_t r = 0; r < 2; ++r) {
    roles.start(Rank(r), Node(r), View(1), absl::InfiniteDuration());
    roles.join({.rank = Rank(r), .since = View(1), .node = Node(r)}, absl::ZeroDuration());
    Report report{.view = view.number(), .rank = Rank(r), .stage_epoch = View(1)};
    report.newest = verdict_commit(Step(5));
    report.state = Step(5);
    report.base = Step(0);
    report.complete_window = Step(3);
    report.held = {{Rank(0), Step(3)}, {Rank(1), Step(3)}};
    roles.note_report(report);
  }
  return view.plan(roles, {.holders_of = {{}, {}}}, std::nullopt);
}

TEST(UnusableStates, AfterWholeStatesWindowsAreTried) {
  const Plan plan = plan_after(/*renews=*/true);
  EXPECT_FALSE(plan.restart_all);
  EXPECT_THAT(plan.rolled_back, ElementsAre(0, 1));
  EXPECT_THAT(absl::StrJoin(plan.reasons, "; "),
              HasSubstr("all stages go back: role 0.0: no source has a usable copy"));
}

TEST(UnusableStates, AfterWindowsNothingInMemoryIs) {
  EXPECT_TRUE(plan_after(/*renews=*/false).restart_all);
}

}  // namespace
}  // namespace evermoe
