// Thousands of random faults, and single ones where they hurt most. `evermoe sim` runs more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "base/log.h"
#include "sim/schedule_run.h"

namespace evermoe {
namespace {

// A quarter of the daily schedules in each process of the test runner.
class SchedulesTest : public testing::TestWithParam<int> {};

TEST_P(SchedulesTest, EveryFaultEndsExactly) {
  constexpr uint64_t kSeedsPerPart = 500;
  configure_log("sim", LogLevel::kError);
  int failures = 0;
  std::map<std::string, int> marks;
  const uint64_t first = static_cast<uint64_t>(GetParam()) * kSeedsPerPart + 1;
  for (uint64_t seed = first; seed < first + kSeedsPerPart && failures < 3; ++seed) {
    const ScheduleResult result = run_schedule(seed, {});
    for (const std::string& mark : result.outcome.marks) ++marks[mark];
    if (result.passed) continue;
    ADD_FAILURE() << result.transcript();
    ++failures;
  }
  for (const auto& [mark, count] : marks) std::printf("%6d  %s\n", count, mark.c_str());
  // The rare paths are what random schedules are for. (Two stages that recover apart come once in
  // 500 seeds; simulated_job_test has them every time.)
  for (const char* const mark :
       {"joint segment", "failure during a recovery", "restart of all", "unusable copy skipped",
        "survivor verified", "survivor of a double loss in one stage", "controller killed",
        "refused", "new capture order", "restored in an order that was counted",
        // Of the control plane.
        "controller stopped and back", "controller hung", "worker shown to a new controller",
        "not adopted", "agent stopped and back", "worker of a stopped node back",
        "agent lost for its silence", "agent lost with its line",
        "agent attaches before its old line breaks", "living node given up",
        "role moved away from where it kept dying", "agent back on a new line",
        "former process of a role told to end", "spare takes over", "node lost and back",
        "no node was left", "words lost with a line", "call failed"}) {
    EXPECT_GT(marks[mark], 0) << mark << " was never reached";
  }
}
INSTANTIATE_TEST_SUITE_P(Part, SchedulesTest, testing::Range(0, 4));

}  // namespace
}  // namespace evermoe
