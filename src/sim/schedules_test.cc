// Thousands of random disasters. EVERMOE_SIM_SEEDS=A..B chooses others.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "base/log.h"
#include "sim/random_schedule.h"

namespace evermoe {
namespace {

TEST(SchedulesTest, EveryDisasterEndsExactly) {
  unsigned long first = 1, last = 500;
  const char* const seeds = std::getenv("EVERMOE_SIM_SEEDS");
  if (seeds != nullptr && std::sscanf(seeds, "%lu..%lu", &first, &last) != 2) FAIL() << "EVERMOE_SIM_SEEDS is " << seeds;
  int failures = 0;
  std::map<std::string, int> marks;
  for (uint64_t seed = first; seed <= last; ++seed) {
    const ScheduleResult result = run_schedule(seed, {});
    for (const std::string& mark : result.outcome.marks) ++marks[mark];
    if (result.passed) continue;
    ADD_FAILURE() << result.transcript();
    if (++failures >= 3) break;
  }
  for (const auto& [mark, count] : marks) std::printf("%6d  %s\n", count, mark.c_str());
}

}  // namespace
}  // namespace evermoe
