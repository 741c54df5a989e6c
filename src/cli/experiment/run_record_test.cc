#include "cli/experiment/run_record.h"

#include <gtest/gtest.h>

#include <optional>

#include "cli/experiment/experiment_page.h"

namespace evermoe {
namespace {

JobEnd finished() {
  JobEnd end;
  end.summary = {
      {"status", "finished"}, {"lost_token_share", 0.0}, {"is_exact", true},  {"digest", "d1"},
      {"steps", 100},         {"seconds", 130.0},        {"final_loss", 2.5}, {"restarts", 1}};
  end.summary["membership_history"] = end.summary["rebalances"] = nlohmann::json::array();
  end.summary["failures"] = {{{"step", 57},
                              {"restarted_from_step", 50},
                              {"recomputed_steps", 0},
                              {"seconds_lost", 6.0},
                              {"timeline",
                               {{"detect", 1.0},
                                {"view", 2.0},
                                {"load", 5.0},
                                {"catch_up", nullptr},
                                {"verify", nullptr},
                                {"resume", 6.0}}}}};
  end.metrics =
      "{\"step\":1,\"captured_bytes\":10,\"log_bytes\":5,\"snapshot_bytes\":7,"
      "\"copy_wait_seconds\":0.5}\n{\"step\":2,\"captured_bytes\":20,\"log_bytes\":1}\n";
  end.seen.memory_peak_bytes = 12345;
  return end;
}

// Steps of a second, and five seconds beside them.
constexpr Yardsticks kAround{.before = {0.75, 4}, .after = {1.25, 6}};

JobConfig job_of(StrategyKind kind) {
  JobConfig job;
  job.train.steps = 100;
  job.protection.strategy = kind;
  return job;
}

TEST(RunRecord, SaysWhereTheTimeWent) {
  const auto record = run_record(finished(), "none", job_of(StrategyKind::kNone), "p", 3, kAround);
  EXPECT_EQ(record["strategy"], "none");
  EXPECT_EQ(record["seed"], 3);
  EXPECT_EQ(record["step_seconds"], 1);
  EXPECT_EQ(record["step_seconds_before"], 0.75);
  EXPECT_EQ(record["step_seconds_after"], 1.25);
  EXPECT_EQ(record["ettr"], 0.8);
  EXPECT_EQ(record["undone_steps"], 7);
  EXPECT_EQ(record["recovery"]["detect_seconds"], 1);
  EXPECT_EQ(record["recovery"]["load_seconds"], 3);
  EXPECT_EQ(record["recovery"]["catch_up_seconds"], 0);
  EXPECT_EQ(record["recovery"]["resume_seconds"], 1);
  EXPECT_EQ(record["captured_bytes"], 30);
  EXPECT_EQ(record["kept_bytes_max"], 12);
  EXPECT_EQ(record["stall_seconds"], 0.5);
  EXPECT_EQ(record["memory_peak_bytes"], 12345);
}

TEST(RunRecord, ARunWithoutASummaryIsUnfinished) {
  auto record = run_record(JobEnd(), "none", job_of(StrategyKind::kNone), "p", 3, kAround);
  EXPECT_EQ(record["status"], "unfinished");
  EXPECT_TRUE(record["ettr"].is_null());
  PredictedRun predicted;
  predicted.ettr = 0.9;
  add_prediction(predicted, record);
  EXPECT_EQ(record["predicted_ettr"], 0.9);
  EXPECT_TRUE(record["prediction_error"].is_null());
}

TEST(ExperimentPage, ShowsWhatWasMeasuredAndPredicted) {
  auto record = run_record(finished(), "none", job_of(StrategyKind::kNone), "p", 3, kAround);
  PredictedRun predicted;
  predicted.ettr = 0.75;
  add_prediction(predicted, record);
  auto lost = run_record(JobEnd(), "elastic", job_of(StrategyKind::kSparse), "p<q", 3, kAround);
  add_no_prediction(lost);
  const std::string html =
      to_html(experiment_page("Experiment: e.toml", report_of({record, lost}), std::nullopt));
  EXPECT_NE(html.find("80.0 %"), std::string::npos);
  EXPECT_NE(html.find("75.0 %"), std::string::npos);
  EXPECT_NE(html.find("-5.0"), std::string::npos);
  EXPECT_NE(html.find("p&lt;q"), std::string::npos);
  EXPECT_EQ(html.find("BITS DIFFER"), std::string::npos);
  auto other = record;
  other["digest"] = "d2";
  EXPECT_NE(
      to_html(experiment_page("t", report_of({record, other}), std::nullopt)).find("BITS DIFFER"),
      std::string::npos);
}

}  // namespace
}  // namespace evermoe
