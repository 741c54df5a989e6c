// How much work a failure costs, counted: only the stage that lost a rank runs steps again, at most
// 2 W of them, and 3/2 W on average (MoEtion section 3.6, corrected: the work lies between W and 2
// W).

#include <gtest/gtest.h>

#include <cstdio>

#include "absl/strings/str_join.h"
#include "base/log.h"
#include "sim/simulated_job.h"

namespace evermoe {
namespace {

struct Counted {
  int64_t in_stage = 0;   // largest number of steps that a rank of the lost rank's stage ran again
  int64_t elsewhere = 0;  // all steps that all other ranks ran again
};

// Kills `rank` when it passes a forward for the `passing`-th time.
Counted work_after_kill(int window, Rank rank, int64_t passing, uint64_t seed) {
  SimulatedShape shape;
  shape.lanes = {2, 2, 2};
  shape.window = window;
  shape.model.steps = 4 * window + 4;
  shape.network.seed = seed;
  const SimulatedOutcome outcome = SimulatedJob(shape, {{.kind = SimulatedFault::Kind::kKillWorker,
                                                         .rank = rank,
                                                         .point = "step/forward",
                                                         .at_rank = rank,
                                                         .passing = passing}})
                                       .run();
  EXPECT_TRUE(outcome.ok) << absl::StrJoin(outcome.story, "\n");
  EXPECT_EQ(outcome.recoveries.size(), 1u);
  Counted counted;
  for (int r = 0; r < 6; ++r) {
    const int64_t again = outcome.work[static_cast<size_t>(r)].steps_recomputed;
    if (r / 2 == rank.value / 2)
      counted.in_stage = std::max(counted.in_stage, again);
    else
      counted.elsewhere += again;
  }
  return counted;
}

TEST(WorkBoundTest, OnlyTheLostStageRunsStepsAgain) {
  configure_log("sim", LogLevel::kError);
  for (const int window : {1, 2, 3, 5}) {
    int64_t total = 0, runs = 0, largest = 0;
    // Failures spread evenly over one whole window, after the first two: a step passes two
    // forwards.
    const int64_t first = 2 * (2 * window + 2), last = 2 * (3 * window + 2);
    for (int64_t passing = first; passing < last; ++passing) {
      for (const int rank : {0, 3, 4}) {
        const Counted counted = work_after_kill(window, Rank(rank), passing,
                                                static_cast<uint64_t>(passing * 10 + rank));
        EXPECT_EQ(counted.elsewhere, 0);
        EXPECT_LE(counted.in_stage, 2 * window);
        EXPECT_GE(counted.in_stage, window - 1);
        total += counted.in_stage;
        largest = std::max(largest, counted.in_stage);
        ++runs;
      }
    }
    // The step that was broken off is not counted here: W - 1 + (W - 1) / 2 + 1 whole steps on
    // average, and half of the one under way make up the 3/2 W of the formula.
    const double mean = static_cast<double>(total) / static_cast<double>(runs);
    std::printf(
        "window %d: %.2f steps run again on average over %lld kills, %lld at most; 3/2 W = %.1f\n",
        window, mean, static_cast<long long>(runs), static_cast<long long>(largest), 1.5 * window);
    EXPECT_NEAR(mean + 0.5, 1.5 * window, 0.75);
  }
}

}  // namespace
}  // namespace evermoe
