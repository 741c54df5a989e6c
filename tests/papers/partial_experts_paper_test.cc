// PEC's figures against the code that chooses, divides and counts here.
#include <gtest/gtest.h>

#include "env/files.h"
#include "papers/partial_experts_comparison.h"
#include "papers/results_input.h"
#include "planner/plan/plan_input.h"
#include "planner/simulate/lossy_ages.h"

namespace evermoe {
namespace {

TEST(PartialExpertsPaperTest, CheckpointBytesOfFigure5a) {
  const double whole = partial_checkpoint_bytes(pec_model(), 8);
  EXPECT_NEAR(1 - partial_checkpoint_bytes(pec_model(), 1) / whole, 0.542, 0.01);
}

TEST(PartialExpertsPaperTest, RealCheckpointsHaveTheForecastBytes) {
  const auto input = load_results_input();
  ASSERT_TRUE(input.ok()) << input.status();
  int compared = 0;
  for (const KeptResult& kept : input->kept) {
    if (kept.result.partial_checkpoints.empty()) continue;
    const auto job =
        load_planned_job(real_files(), source_path(kept.result.config), kept.result.settings);
    ASSERT_TRUE(job.ok()) << job.status();
    for (const PartialCheckpointResult& row : kept.result.partial_checkpoints) {
      const double forecast =
          partial_checkpoint_bytes(job->model.shape, static_cast<int>(row.experts_saved));
      EXPECT_NEAR(static_cast<double>(row.bytes) / forecast, 1, 0.01) << row.experts_saved;
      ++compared;
    }
  }
  EXPECT_GE(compared, 4);
}

TEST(PartialExpertsPaperTest, RankLoadsOfFigure5b) {
  const RankLoads loads = pec_rank_loads(1);
  EXPECT_NEAR(1 - loads.partial_mean / loads.whole, 0.15, 0.005);
  EXPECT_NEAR(1 - loads.adaptive_peak / loads.whole, 0.769, 0.01);
  EXPECT_NEAR(1 - loads.adaptive_peak / loads.equal_peak, 0.117, 0.01);
  // Modules are what limits both: cutting inside them is better than either.
  EXPECT_LT(loads.zero_peak, 0.7 * loads.adaptive_peak);
  EXPECT_LE(loads.water_peak, loads.zero_peak);
}

TEST(PartialExpertsPaperTest, LostTokensOfFigure2) {
  PartialRun run{.saved = 2, .in_memory = 2, .every = 32, .steps = 640, .whole_job = true};
  EXPECT_NEAR(mean_plt(run), 0.075, 1e-12);
  for (const int saved : {1, 2, 4}) {
    run.saved = run.in_memory = saved;
    for (const int64_t every : {8, 16}) {
      run.every = every;
      const double forecast = lossy_steps_per_fault({8, saved}, every) / 640;
      EXPECT_NEAR(mean_plt(run), forecast, 1e-12) << saved << " " << every;
    }
  }
}

TEST(PartialExpertsPaperTest, DynamicKOfFigure5d) {
  std::vector<int64_t> faults;
  for (int64_t fault = 25; fault < 1000; fault += 25) faults.push_back(fault);
  PartialRun run{.every = 1, .whole_job = true};
  const double expected[] = {0.1365, 0.0585, 0.0195};
  for (int i = 0; i < 3; ++i) {
    run.saved = run.in_memory = 1 << i;
    EXPECT_NEAR(play_partial_run(run, faults).plt, expected[i], 1e-9) << run.saved;
  }
  run.saved = run.in_memory = 1;
  run.plt_max = 0.05;
  const PartialRunEnd end = play_partial_run(run, faults);
  EXPECT_LE(end.plt, 0.05);
  EXPECT_GT(end.saved, 1);
}

TEST(PartialExpertsPaperTest, TwoLevelsOfFigure7) {
  const double expected[] = {0.035, 0.025, 0.020, 0.0175};
  for (int i = 0; i < 4; ++i)
    EXPECT_NEAR(mean_plt({.in_memory = 1 << i}), expected[i], 0.0005) << (1 << i);
}

}  // namespace
}  // namespace evermoe
