// Expectations against each other, and the simulation against them.
#include "planner/simulate/closed_forms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "planner/simulate/estimate.h"
#include "protection/interval/interval.h"

namespace evermoe {
namespace {

constexpr double kHour = 3600, kDay = 86400;

auto poisson(double mtbf, int nodes = 1) {
  return [=](uint64_t seed) {
    return draw_availability({.node_mtbf_seconds = mtbf * nodes}, nodes, 0, seed);
  };
}

// The intervals of independent tests together would miss about one time in twenty; 4 standard
// errors miss once in 16,000.
void expect_meets(const Estimate& simulated, double expected, const std::string& what) {
  EXPECT_NEAR(simulated.mean, expected, 4 * simulated.error)
      << what << ", error " << simulated.error;
  EXPECT_LT(simulated.error, 0.01 * expected) << what;
}

TEST(ClosedFormsTest, DenseWithoutDelayIsTheExactLawOfIntervals) {
  const PeriodicSave save{.every_steps = 100, .stall_seconds = 120};
  EXPECT_NEAR(dense_ettr(12, save, 0, 300, 7593.75), efficiency(1200, {120, 7593.75, 300}), 1e-12);
}

TEST(ClosedFormsTest, TheProductIsTheFirstOrder) {
  EXPECT_NEAR(product_ettr(0.02, 3, 7200), 1 / (1.02 * (1 + 3 / 7200.0)), 1e-12);
  const TrainedJob job{.step_seconds = 1, .stages = 4, .rounds = 8};
  const SparseCapture sparse{.window = 3, .conversion_seconds = 2};
  for (const double mtbf : {1e4, 1e6}) {
    const double first = product_ettr(0.01, 5 + sparse_catch_up_seconds(job, sparse, 1), mtbf);
    EXPECT_NEAR(sparse_ettr(job, sparse, 0.01, 5, mtbf, 1), first, 100 / (mtbf * mtbf));
  }
}

// E[R] = 3/2 W T (MoEtion section 3.6) with one stage and nothing saved by frozen operators.
TEST(ClosedFormsPaperTest, SparseCatchUpIsThreeHalvesOfTheWindow) {
  for (const int window : {1, 3, 6}) {
    const SparseCapture sparse{.window = window, .conversion_seconds = 2.5 * (window - 1)};
    EXPECT_DOUBLE_EQ(sparse_catch_up_seconds({.step_seconds = 2.5}, sparse, 1), 1.5 * window * 2.5);
  }
  // Section 3.4: one stage of 12, 16 micro-batches, alone.
  EXPECT_DOUBLE_EQ((TrainedJob{.stages = 12, .rounds = 16}.stage_share(1)), 16.0 / 27);
  EXPECT_DOUBLE_EQ((TrainedJob{.stages = 12, .rounds = 16}.stage_share(12)), 1);
}

TEST(SimulationMeetsTest, DenseSavesUnderPoissonFailures) {
  struct Row {
    double step, stall, delay, overhead, restart, mtbf;
    int64_t every;
  };
  for (const Row& row : {Row{12, 120, 0, 0, 300, 7593.75, 106}, Row{2.9, 11, 0, 0, 60, 600, 31},
                         Row{2.9, 2, 40, 0.03, 60, 600, 31}, Row{1, 5, 200, 0, 0, 400, 100},
                         Row{1, 30, 0, 0.5, 500, 300, 40}}) {
    const TrainedJob job{.step_seconds = row.step};
    RunStrategy strategy{.step_overhead_share = row.overhead};
    strategy.save = {row.every, row.stall, row.delay};
    strategy.recovery.detect = row.restart / 3;
    strategy.recovery.restart = row.restart / 3;
    strategy.recovery.load_durable = row.restart / 3;
    const double expected =
        dense_ettr(row.step, strategy.save, row.overhead, row.restart, row.mtbf);
    const RunEstimates run =
        estimate_runs(job, strategy, {.wall_seconds = 4000 * row.mtbf}, poisson(row.mtbf), 20, 1);
    expect_meets(run.ettr, expected, absl::StrCat("every ", row.every, " at ", row.mtbf));
  }
}

// The chapter's table: the exact law at every interval, and its maximum at the optimum.
TEST(SimulationMeetsTest, TheChaptersIntervals) {
  const IntervalCosts costs{.save_seconds = 120, .mtbf_seconds = 180 * kDay / 2048};
  for (const int64_t work : {300, 900, 1271, 3600, 14400}) {
    RunStrategy strategy;
    strategy.save = {work, costs.save_seconds, 0};
    const RunEstimates run =
        estimate_runs({}, strategy, {.wall_seconds = 3000 * costs.mtbf_seconds},
                      poisson(costs.mtbf_seconds), 10, 7);
    expect_meets(run.ettr, efficiency(static_cast<double>(work), costs),
                 absl::StrCat("work ", work));
  }
}

TEST(SimulationMeetsTest, SparseWindowsUnderPoissonFailures) {
  for (const int window : {1, 3, 6}) {
    for (const int lag : {0, 2}) {
      const TrainedJob job{.step_seconds = 2.9, .nodes = 12, .stages = 12, .rounds = 16};
      RunStrategy strategy{
          .protection = StateProtection::kSparse, .copies = 11, .step_overhead_share = 0.02};
      strategy.sparse = {window, lag, 2.9 * (window - 1)};
      strategy.recovery.standby = strategy.recovery.restart = 20;
      const RunEstimates run =
          estimate_runs(job, strategy, {.wall_seconds = 2000 * 600}, poisson(600, 12), 20, 3);
      EXPECT_EQ(run.fallbacks, 0);
      expect_meets(run.ettr, sparse_ettr(job, strategy.sparse, 0.02, 20, 600, 1),
                   absl::StrCat("window ", window));
      EXPECT_EQ(run.rework_share.mean, 0);
    }
  }
}

// E[R] itself: the time of recoveries per interruption, where none is interrupted in turn.
TEST(SimulationMeetsTest, ThreeHalvesOfTheWindowPerFailure) {
  for (const int window : {3, 5, 6}) {
    RunStrategy strategy{.protection = StateProtection::kSparse};
    strategy.sparse = {window, 0, 1.7 * (window - 1)};
    const TrainedJob job{.step_seconds = 1.7, .nodes = 2};
    const RunEstimates run =
        estimate_runs(job, strategy, {.wall_seconds = 300 * kDay}, poisson(12 * kHour, 2), 20, 5);
    expect_meets(run.downtime_per_interruption_seconds, 1.5 * window * 1.7,
                 absl::StrCat("window ", window));
  }
}

TEST(SimulationMeetsTest, AJobWithoutSavesStartsAgain) {
  const double work = 2 * kHour, mtbf = kHour;
  std::vector<double> wall;
  RunStrategy strategy;
  strategy.recovery.restart = 600;
  for (uint64_t seed = 1; seed <= 4000; ++seed) {
    const auto source = poisson(mtbf)(seed);
    const SimulatedRun run = simulate_run({.step_seconds = 10}, strategy, *source, {.steps = 720});
    EXPECT_NEAR(run.useful_seconds, work, 1e-9);
    wall.push_back(run.wall_seconds);
  }
  const Estimate estimate = estimate_mean(wall);
  EXPECT_NEAR(estimate.mean, expected_seconds_without_saves(work, 600, mtbf), 4 * estimate.error);
  EXPECT_LT(estimate.error, 0.02 * estimate.mean);
}

// Without costs of their own, waiting and shrinking are the availability of nodes.
TEST(SimulationMeetsTest, WaitingForNodesIsTheirAvailability) {
  const FailureLaw law{.node_mtbf_seconds = 20 * kDay, .repair_seconds = 12 * kHour};
  const double up = availability(law, 0);
  for (const int spares : {0, 1, 3}) {
    RunStrategy strategy{.protection = StateProtection::kReplicas, .copies = 29};
    const TrainedJob job{.step_seconds = 1, .nodes = 30};
    const RunEstimates run = estimate_runs(
        job, strategy, {.wall_seconds = 3000 * kDay},
        [&](uint64_t seed) { return draw_availability(law, 30 + spares, 0, seed); }, 20, 11);
    expect_meets(run.ettr, at_least_up(30 + spares, 30, up), absl::StrCat(spares, " spares"));
  }
}

TEST(SimulationMeetsTest, ShrinkingLosesTheMissingNodesOnly) {
  const FailureLaw law{
      .node_mtbf_seconds = 5 * kDay, .repair_seconds = 12 * kHour, .exponential_repair = true};
  const RunStrategy strategy{.protection = StateProtection::kReplicas,
                             .replacement = NodeReplacement::kElastic,
                             .copies = 9};
  const RunEstimates run = estimate_runs(
      {.step_seconds = 1, .nodes = 30}, strategy, {.wall_seconds = 1000 * kDay},
      [&](uint64_t seed) { return draw_availability(law, 30, 0, seed); }, 20, 12);
  expect_meets(run.ettr, availability(law, 0), "elastic");
  EXPECT_NEAR(run.shrunk_share.mean, 1 - availability(law, 0), 0.002);
}

TEST(ClosedFormsTest, BinomialTails) {
  EXPECT_NEAR(at_least_up(3, 2, 0.9), 3 * 0.81 * 0.1 + 0.729, 1e-12);
  EXPECT_EQ(at_least_up(5, 5, 1), 1);
  EXPECT_EQ(at_least_up(5, 1, 0), 0);
  EXPECT_NEAR(at_least_up(2048, 0, 0.99), 1, 1e-9);
}

}  // namespace
}  // namespace evermoe
