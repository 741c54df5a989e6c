// Oracles: all assignments of modules, all divisions of bytes, for small cases.
#include "protection/partial_experts/state_sharding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "protection/counter_random_testing.h"

namespace evermoe {
namespace {

int64_t largest(const std::vector<int64_t>& bytes) {
  return *std::max_element(bytes.begin(), bytes.end());
}

std::vector<int64_t> filled(std::vector<int64_t> base, const std::vector<ByteRange>& ranges) {
  for (size_t r = 0; r < base.size(); ++r) base[r] += ranges[r].size();
  return base;
}

int64_t best_assignment(std::vector<int64_t>& bytes, std::span<const int64_t> modules) {
  if (modules.empty()) return largest(bytes);
  int64_t best = INT64_MAX;
  for (int64_t& rank : bytes) {
    rank += modules[0];
    best = std::min(best, best_assignment(bytes, modules.subspan(1)));
    rank -= modules[0];
  }
  return best;
}

TEST(StateShardingTest, ModulesGoToTheLeastLoadedRank) {
  const std::vector<int64_t> base{0, 0, 30, 0}, modules{50, 20, 10, 10};
  const ModuleAssignment assignment = assign_modules(base, modules);
  EXPECT_EQ(assignment.owner, (std::vector<int>{0, 1, 3, 3}));
  EXPECT_EQ(assignment.rank_bytes, (std::vector<int64_t>{50, 20, 30, 20}));
  EXPECT_EQ(filled({0, 0, 0, 0}, water_fill(base, 90, 1)), (std::vector<int64_t>{30, 30, 0, 30}));
}

TEST(StateShardingTest, ModulesCanBeSeventhAboveTheOptimum) {
  const std::vector<int64_t> base{8, 0, 0}, modules{20, 19, 15, 12};
  EXPECT_EQ(largest(assign_modules(base, modules).rank_bytes), 31);
  std::vector<int64_t> bytes = base;
  EXPECT_EQ(best_assignment(bytes, modules), 27);
  EXPECT_EQ(largest(filled(base, water_fill(base, 66, 1))), 25);
}

TEST(StateShardingTest, WaterIsNeverAboveTheBestAssignment) {
  CounterRandom random(1);
  double sum = 0, worst = 1;
  const int trials = 1000;
  for (int trial = 0; trial < trials; ++trial) {
    std::vector<int64_t> base(random.integer(1, 4)), modules(random.integer(1, 6));
    int64_t total = 0;
    for (int64_t& b : base) b = random.integer(0, 2) == 0 ? 0 : random.integer(0, 30);
    for (int64_t& m : modules) total += m = random.integer(1, 30);
    const ModuleAssignment assignment = assign_modules(base, modules);
    std::vector<int64_t> check = base;
    for (size_t m = 0; m < modules.size(); ++m) check[assignment.owner[m]] += modules[m];
    ASSERT_EQ(check, assignment.rank_bytes);
    std::vector<int64_t> bytes = base;
    const int64_t best = best_assignment(bytes, modules);
    const double ratio =
        static_cast<double>(largest(assignment.rank_bytes)) / static_cast<double>(best);
    sum += ratio;
    worst = std::max(worst, ratio);
    ASSERT_LE(largest(filled(base, water_fill(base, total, 1))), best);
  }
  EXPECT_LT(sum / trials, 1.02);
  EXPECT_LT(worst, 4.0 / 3);
}

TEST(StateShardingTest, WaterHasTheLowestPeakOfAllDivisions) {
  CounterRandom random(2);
  for (int trial = 0; trial < 3000; ++trial) {
    std::vector<int64_t> base(random.integer(1, 4));
    for (int64_t& b : base) b = random.integer(0, 15);
    const int64_t granularity = random.integer(1, 4), total = random.integer(0, 24);
    const auto ranges = water_fill(base, total, granularity);
    int64_t begin = 0;
    for (const ByteRange& range : ranges) {
      ASSERT_EQ(range.begin, begin);
      ASSERT_LE(range.begin, range.end);
      ASSERT_TRUE(range.end % granularity == 0 || range.end == total);
      begin = range.end;
    }
    ASSERT_EQ(begin, total);
    // Every division into granules, the last possibly short, counted whole.
    int64_t best = INT64_MAX;
    std::vector<int64_t> bytes = base;
    const std::function<void(size_t, int64_t)> divide = [&](size_t rank, int64_t left) {
      if (rank + 1 == base.size()) {
        bytes[rank] += left * granularity;
        best = std::min(best, largest(bytes));
        bytes[rank] -= left * granularity;
        return;
      }
      for (int64_t take = 0; take <= left; ++take) {
        bytes[rank] += take * granularity;
        divide(rank + 1, left - take);
        bytes[rank] -= take * granularity;
      }
    };
    divide(0, (total + granularity - 1) / granularity);
    const auto loads = filled(base, ranges);
    ASSERT_LE(largest(loads), best);
    if (granularity > 1) continue;
    ASSERT_EQ(largest(loads), best);
    // Who got something differs by at most one byte.
    int64_t low = INT64_MAX, high = 0;
    for (size_t r = 0; r < loads.size(); ++r) {
      if (ranges[r].size() == 0) continue;
      low = std::min(low, loads[r]);
      high = std::max(high, loads[r]);
    }
    ASSERT_TRUE(total == 0 || high - low <= 1);
  }
}

}  // namespace
}  // namespace evermoe
