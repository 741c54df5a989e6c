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
  for (const std::string& path : rare_paths())
    EXPECT_GT(marks[path], 0) << path << " was never reached";
}
INSTANTIATE_TEST_SUITE_P(Part, SchedulesTest, testing::Range(0, 4));

}  // namespace
}  // namespace evermoe
