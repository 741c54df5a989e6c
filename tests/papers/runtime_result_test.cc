// The results that are kept: what is read back, and what is refused.
#include <gtest/gtest.h>

#include "papers/runtime_result.h"
#include "planner/simulate/random_stream.h"

namespace evermoe {
namespace {

constexpr char kReport[] = R"({"version": 3, "runs": [
  {"system": "sparse", "failure_process": "exponential-40", "seed": 1, "ettr": 0.5,
   "predicted_ettr": 0.625, "step_seconds": 0.25, "failure_count": 3, "lost_token_share": 0,
   "is_exact": true, "digest": "a"},
  {"system": "sparse", "failure_process": "exponential-40", "seed": 2, "ettr": 0.75,
   "step_seconds": 0.75, "failure_count": 4, "lost_token_share": 0, "is_exact": true,
   "digest": "b"},
  {"system": "none", "failure_process": "exponential-40", "seed": 1, "ettr": null}],
 "summaries": [
  {"system": "sparse", "failure_process": "exponential-40", "ettr": 0.625,
   "ettr_half_width": 0.1},
  {"system": "none", "failure_process": "exponential-40", "ettr": null,
   "ettr_half_width": null}]})";

RuntimeResult kept_report() {
  RuntimeResult result = result_of_report(kReport, "report.json").value();
  result.machine = "a \"machine\"";
  result.command = "evermoe experiment x.toml";
  return result;
}

TEST(RuntimeResultTest, OfAReport) {
  const RuntimeResult result = kept_report();
  ASSERT_EQ(result.experiments.size(), 2u);
  EXPECT_EQ(result.experiments[0], (ExperimentResult{.system = "sparse",
                                                     .failure_process = "exponential-40",
                                                     .runs = 2,
                                                     .failures = 7,
                                                     .ettr = 0.625,
                                                     .ettr_half_width = 0.1,
                                                     .predicted_ettr = 0.625,
                                                     .step_seconds = 0.5,
                                                     .digests = 2}));
  EXPECT_EQ(result.experiments[1].unfinished, 1);
  EXPECT_EQ(result.experiments[1].ettr, std::nullopt);
}

TEST(RuntimeResultTest, ReadBackAsWritten) {
  const RuntimeResult result = kept_report();
  const auto read = parse_runtime_result(to_json(result), "x.json");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, result);
}

constexpr char kAccuracy[] = R"({"version": 1, "kind": "accuracy", "machine": "m", "command": "c",
 "config": "x.toml", "steps": 200, "save_every_steps": 20, "kills": 1, "results": [
  {"name": "partial-1", "strategy": "partial-experts", "is_exact": false, "kills": 1, "digest": "d",
   "lost_token_share": 0.25, "validation_loss": 2.5, "validation_accuracy": 0.5}]})";

TEST(RuntimeResultTest, WhatWasLearned) {
  const auto read = parse_runtime_result(kAccuracy, "x.json");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->steps, 200);
  EXPECT_EQ(read->accuracies, (std::vector<AccuracyResult>{{.name = "partial-1",
                                                            .strategy = "partial-experts",
                                                            .is_exact = false,
                                                            .kills = 1,
                                                            .digest = "d",
                                                            .lost_token_share = 0.25,
                                                            .validation_loss = 2.5,
                                                            .validation_accuracy = 0.5}}));
}

std::string refusal(const std::string& text) {
  return std::string(parse_runtime_result(text, "x.json").status().message());
}

TEST(RuntimeResultTest, WrongFilesAreNamed) {
  EXPECT_EQ(refusal("{"), "x.json: found no JSON, allowed: one JSON object");
  EXPECT_EQ(refusal("[]"), "x.json: found [], allowed: an object");
  EXPECT_EQ(refusal("{}"), "x.json: version: found null, allowed: an integer of at least 0");
  EXPECT_EQ(refusal(R"({"version": 2})"), "x.json: version: found 2, allowed: 1");
  EXPECT_EQ(refusal(R"({"version": 1, "machine": "m", "command": "c", "kind": "dream"})"),
            "x.json: kind: found \"dream\", allowed: experiment, partial-checkpoints, "
            "accuracy");
  std::string text = to_json(kept_report());
  text.replace(text.find("0.5"), 3, "-1");
  EXPECT_EQ(refusal(text),
            "x.json: results[0]: step_seconds: found -1, allowed: a number of at least 0");
  EXPECT_EQ(result_of_report(R"({"version": 3, "runs": [], "summaries": []})", "r.json")
                .status()
                .message(),
            "r.json: summaries: found [], allowed: at least one");
}

TEST(RuntimeResultTest, DamagedTextsAreRefusedInOneLineOrRead) {
  RandomStream random(3, 0);
  const std::string texts[] = {to_json(kept_report()), kReport, kAccuracy};
  for (int i = 0; i < 6000; ++i) {
    std::string text = texts[i % 3];
    for (int damage = 0; damage <= i % 4; ++damage)
      text[static_cast<size_t>(random.below(static_cast<int>(text.size())))] =
          static_cast<char>(random.below(256));
    for (const auto& result : {parse_runtime_result(text, "x"), result_of_report(text, "x")}) {
      EXPECT_EQ(result.status().message().find('\n'), std::string::npos) << result.status();
    }
  }
}

}  // namespace
}  // namespace evermoe
