#include "data/sample_order.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace evermoe {
namespace {

TEST(PermutedTest, IsAPermutationForEveryCount) {
  for (const int64_t count : {1, 2, 3, 4, 5, 7, 16, 17, 63, 64, 65, 1000, 65537}) {
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<bool> seen(static_cast<size_t>(count));
      for (int64_t index = 0; index < count; ++index) {
        const int64_t value = permuted(index, count, 5, epoch);
        ASSERT_TRUE(0 <= value && value < count);
        ASSERT_FALSE(seen[static_cast<size_t>(value)]) << count << " " << index;
        seen[static_cast<size_t>(value)] = true;
      }
    }
  }
}

TEST(PermutedTest, WorksForTheLargestFile) {
  const int64_t count = (int64_t{1} << 40) - 1;
  for (int64_t i = 0; i < 100; ++i) {
    EXPECT_LT(permuted(count - 1 - i, count, 1, 0), count);
  }
}

TEST(PermutedTest, SeedAndEpochGiveUnrelatedOrders) {
  constexpr int64_t kCount = 10000;
  int same_seed = 0, same_epoch = 0, fixed = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    const int64_t value = permuted(i, kCount, 1, 0);
    same_seed += value == permuted(i, kCount, 2, 0);
    same_epoch += value == permuted(i, kCount, 1, 1);
    fixed += value == i;
  }
  // Each is the number of agreements of two random permutations: Poisson with mean 1.
  EXPECT_LE(same_seed, 8);
  EXPECT_LE(same_epoch, 8);
  EXPECT_LE(fixed, 8);
}

TEST(PermutedTest, NeighboursLandFarApart) {
  constexpr int64_t kCount = 10000;
  double distance = 0;
  for (int64_t i = 1; i < kCount; ++i) {
    distance +=
        std::abs(static_cast<double>(permuted(i, kCount, 9, 0) - permuted(i - 1, kCount, 9, 0)));
  }
  // A third of the range for a random permutation; its standard error is 0.24 % of the range.
  EXPECT_NEAR(distance / kCount / kCount, 1.0 / 3, 0.012);
}

TEST(SampleOrderTest, EveryWindowExactlyOncePerEpoch) {
  // 3 * 4 samples a step do not divide 30 windows: epochs begin inside steps.
  const SampleOrder order{3, 30, 3, 4};
  std::vector<int> seen(30);
  int64_t samples = 0;
  for (int64_t step = 0; step < 10; ++step) {
    for (int32_t micro_batch = 0; micro_batch < 3; ++micro_batch) {
      for (int64_t row = 0; row < 4; ++row, ++samples) {
        const int64_t epoch = samples / 30;
        const int64_t window = order.window_of(Step(step), MicroBatch(micro_batch), row);
        EXPECT_EQ(seen[static_cast<size_t>(window)]++, epoch) << samples;
      }
    }
  }
  EXPECT_EQ(samples, 120);
}

TEST(SampleOrderTest, DependsOnNothingButItsArguments) {
  const SampleOrder a{3, 1000, 8, 2};
  const SampleOrder b{3, 1000, 8, 2};
  EXPECT_EQ(a.window_of(Step(500), MicroBatch(7), 1), b.window_of(Step(500), MicroBatch(7), 1));
  EXPECT_EQ(a.window_of(Step(0), MicroBatch(0), 0), permuted(0, 1000, 3, 0));
}

TEST(SampleOrderTest, QuarantinedWindowsAreReplacedAndNoOtherSampleMoves) {
  const SampleOrder order{3, 30, 3, 4};
  const std::vector<int64_t> quarantined = {4, 5, 29};
  for (int64_t step = 0; step < 10; ++step) {
    for (int32_t m = 0; m < 3; ++m) {
      for (int64_t row = 0; row < 4; ++row) {
        const int64_t window = order.window_of(Step(step), MicroBatch(m), row);
        const int64_t expected = window == 4 || window == 5 ? 6 : window == 29 ? 0 : window;
        EXPECT_EQ(order.window_of(Step(step), MicroBatch(m), row, quarantined), expected);
      }
    }
  }
}

TEST(SampleOrderTest, OneWindowIsTrainedForEver) {
  const SampleOrder order{3, 1, 2, 2};
  EXPECT_EQ(order.window_of(Step(1000), MicroBatch(1), 1), 0);
}

TEST(SampleOrderTest, WindowsShareTheirBorderToken) {
  EXPECT_EQ(window_count(0, 8), 0);
  EXPECT_EQ(window_count(8, 8), 0);
  EXPECT_EQ(window_count(9, 8), 1);
  EXPECT_EQ(window_count(16, 8), 1);
  EXPECT_EQ(window_count(17, 8), 2);
}

}  // namespace
}  // namespace evermoe
