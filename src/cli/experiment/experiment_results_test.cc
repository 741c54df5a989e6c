#include "cli/experiment/experiment_results.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace evermoe {
namespace {

constexpr char kMetrics[] =
    "{\"step\":1,\"loss\":5,\"seconds\":9}\n{\"step\":2,\"loss\":5,\"seconds\":1}\n"
    "{\"step\":2,\"validation_loss\":5,\"seconds\":7}\n{\"step\":3,\"loss\":5,\"seconds\":3}\n";

nlohmann::json run_with(const char* strategy, nlohmann::json ettr) {
  nlohmann::json run = {{"system", strategy},
                        {"strategy", strategy},
                        {"failure_process", "p"},
                        {"seed", 1},
                        {"ettr", ettr}};
  for (const char* name :
       {"status", "lost_token_share", "is_exact", "digest", "steps", "seconds", "step_seconds",
        "failure_count", "seconds_lost", "recomputed_steps", "undone_steps", "final_loss",
        "goodput_tokens_per_s", "stall_seconds", "captured_bytes", "kept_bytes_max",
        "memory_peak_bytes", "predicted_ettr", "prediction_error"})
    run[name] = nullptr;
  return run;
}

TEST(ExperimentResults, YardstickLeavesOutTheStart) {
  const auto yardstick = yardstick_of(20, 3, kMetrics);
  ASSERT_TRUE(yardstick.ok());
  EXPECT_EQ(yardstick->step_seconds, 2);
  EXPECT_EQ(yardstick->beside_seconds, 14);
  // Its own ETTR is one, and a run that lost as much time again has half.
  EXPECT_EQ(ettr_of(20, 3, *yardstick), 1);
  EXPECT_EQ(ettr_of(26, 3, *yardstick), 0.5);
  EXPECT_FALSE(ettr_of(14, 3, *yardstick).has_value());
  EXPECT_FALSE(yardstick_of(20, 3, "").ok());
}

TEST(ExperimentResults, ARunIsMeasuredByTheYardsticksAroundIt) {
  const Yardstick around = mean_of({1, 4}, {3, 6});
  EXPECT_EQ(around.step_seconds, 2);
  EXPECT_EQ(around.beside_seconds, 5);
}

TEST(ExperimentResults, IntervalIsStudents) {
  EXPECT_FALSE(spread_of({0.5}).half_width.has_value());
  const Spread spread = spread_of({0.4, 0.5, 0.6});
  EXPECT_NEAR(spread.mean, 0.5, 1e-12);
  EXPECT_NEAR(*spread.half_width, 4.303 * 0.1 / std::sqrt(3.0), 1e-6);
}

TEST(ExperimentResults, UnfinishedRunsAreCountedApart) {
  const auto report =
      report_of({run_with("a", 0.5), run_with("a", nullptr), run_with("b", nullptr)});
  ASSERT_EQ(report["summaries"].size(), 2u);
  EXPECT_EQ(report["summaries"][0]["ettr"], 0.5);
  EXPECT_EQ(report["summaries"][0]["unfinished"], 1);
  EXPECT_TRUE(report["summaries"][1]["ettr"].is_null());
  EXPECT_TRUE(report["summaries"][0]["predicted_ettr"].is_null());
  const std::string table = csv_of({run_with("a", 0.5)});
  EXPECT_NE(table.find("\na,a,p,1,,0.5,"), std::string::npos) << table;
}

TEST(ExperimentResults, PredictionsHaveTheirErrors) {
  std::vector<nlohmann::json> runs = {run_with("a", 0.5), run_with("a", 0.7)};
  for (nlohmann::json& run : runs) {
    run["predicted_ettr"] = 0.6;
    run["prediction_error"] = 0.6 - run["ettr"].get<double>();
  }
  const auto summary = report_of(runs)["summaries"][0];
  EXPECT_EQ(summary["predicted_ettr"], 0.6);
  nlohmann::json unfinished = run_with("a", nullptr);
  unfinished["predicted_ettr"] = 0.1;
  runs.push_back(unfinished);
  EXPECT_EQ(report_of(runs)["summaries"][0]["predicted_ettr"], 0.6) << "of other runs than ettr";
  EXPECT_NEAR(summary["prediction_error"], 0, 1e-12);
  EXPECT_NEAR(summary["prediction_error_half_width"], 12.706 * 0.1, 1e-6);
}

}  // namespace
}  // namespace evermoe
