#include "cluster/worker_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "cluster/report_lines.h"
#include "cluster/worker_report_fuzz_entry.h"

namespace evermoe {
namespace {

using Kind = WorkerReport::Kind;

WorkerReport step_report() {
  WorkerReport report;
  report.kind = Kind::kStep;
  report.rank = Rank(0);
  report.step = Step(17);
  report.loss = 0.1 + 0.2;
  report.gradient_norm = 1e-300;
  report.learning_rate = 3e-4;
  report.load_imbalance = 1.25;
  report.tokens_per_second = 12345;
  return report;
}

WorkerReport failed_report(std::string text) {
  WorkerReport report;
  report.kind = Kind::kFailed;
  report.rank = Rank(3);
  report.step = Step(5);
  report.text = std::move(text);
  report.accused = Rank(1);
  return report;
}

std::vector<std::string> one_line_of_each_kind() {
  std::vector<std::string> lines;
  for (int kind = 0; kind <= static_cast<int>(Kind::kFailed); ++kind) {
    WorkerReport report = step_report();
    report.kind = static_cast<Kind>(kind);
    report.text = "resumed from \"step-00000020\"\n";
    if (report.kind == Kind::kFailed) report.accused = Rank(2);
    lines.push_back(encode(report));
  }
  return lines;
}

WorkerReport decoded(const std::string& line) {
  const auto report = decode_report(line);
  EXPECT_TRUE(report.ok()) << report.status() << " in " << line;
  return report.ok() ? *report : WorkerReport();
}

TEST(WorkerReport, TheStateOfAProtectedJobComesBack) {
  WorkerReport report = step_report();
  report.protection = ProtectionState{.window_steps = 4, .complete_window = Step(-1), .log_bytes = int64_t{1} << 40,
                                      .snapshot_bytes = 7, .captured_bytes = 8,
                                      .read_wait_seconds = 0.25, .copy_wait_seconds = 1e-9, .copying_seconds = 3};
  EXPECT_EQ(decoded(encode(report)).protection, report.protection);
}

TEST(WorkerReport, EveryKindComesBack) {
  for (const std::string& line : one_line_of_each_kind()) EXPECT_EQ(encode(decoded(line)), line);
}

TEST(WorkerReport, NumbersComeBackExactly) {
  const WorkerReport report = decoded(encode(step_report()));
  EXPECT_EQ(report.loss, 0.1 + 0.2);
  EXPECT_EQ(report.gradient_norm, 1e-300);
  EXPECT_EQ(report.step, Step(17));
}

TEST(WorkerReport, ADivergedLossComesBack) {
  for (const double loss : {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
    WorkerReport report = step_report();
    report.loss = loss;
    EXPECT_EQ(decoded(encode(report)).loss, loss);
  }
  WorkerReport report = step_report();
  report.loss = std::nan("");
  EXPECT_TRUE(std::isnan(decoded(encode(report)).loss));
}

TEST(WorkerReport, WhomItAccusesComesBack) {
  EXPECT_EQ(decoded(encode(failed_report("peer lost"))).accused, Rank(1));
  WorkerReport nobody = failed_report("out of memory");
  nobody.accused.reset();
  EXPECT_EQ(decoded(encode(nobody)).accused, std::nullopt);
}

TEST(WorkerReport, AnyTextFitsIntoOneLine) {
  std::string text;
  for (int i = 0; i < 200'000; ++i) text.push_back(static_cast<char>(i * 7));
  const std::string line = encode(failed_report(text));
  EXPECT_LE(std::ssize(line), kReportLineBytesMax);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_EQ(encode(decoded(line)), line);
}

TEST(WorkerReport, WhatEncodeCannotHaveWrittenIsCorrupt) {
  const char* lines[] = {
      "",
      "\n",
      "null\n",
      "{}\n",
      "{\"kind\":\"alive\",\"rank\":0}\n",
      "{\"kind\":\"alive\",\"rank\":0,\"step\":1}",           // no end of line
      "{\"kind\":\"alive\",\"rank\":0, \"step\":1}\n",        // a space
      "{\"kind\":\"alive\",\"rank\":0,\"step\":1,\"x\":2}\n",  // more than there is
      "{\"kind\":\"alive\",\"rank\":0,\"rank\":0,\"step\":1}\n",
      "{\"kind\":\"alive\",\"rank\":4294967296,\"step\":1}\n",
      "{\"kind\":\"alive\",\"rank\":0.0,\"step\":1}\n",
      "{\"kind\":\"asleep\",\"rank\":0,\"step\":1}\n",
      "{\"drained\":1,\"kind\":\"finished\",\"rank\":0,\"step\":1}\n",
  };
  for (const char* line : lines) {
    EXPECT_TRUE(absl::IsDataLoss(decode_report(line).status())) << line;
  }
}

TEST(WorkerReport, MutatedLinesNeverBreakAPromise) {
  const std::vector<std::string> lines = one_line_of_each_kind();
  for (uint32_t seed = 0; seed < 20'000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::string bytes = lines[random() % lines.size()] + lines[random() % lines.size()];
    for (uint32_t n = 1 + random() % 4; n > 0; --n) {
      const size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0: bytes[at] = static_cast<char>(random()); break;
        case 1: bytes[at] = "0123456789-.e\"{}[],:\n\\"[random() % 22]; break;
        case 2: bytes.erase(at, random() % 8); break;
        case 3: bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 16)); break;
      }
      if (bytes.empty()) bytes = "\n";
    }
    fuzz_worker_report(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }
}

TEST(ReportLines, ALineMayComeInPieces) {
  ReportLines lines;
  const std::string line = encode(step_report());
  lines.append(line.substr(0, 10));
  ASSERT_TRUE(lines.next().ok());
  EXPECT_FALSE(lines.next()->has_value());
  lines.append(line.substr(10) + line);
  EXPECT_TRUE(lines.next()->has_value());
  EXPECT_TRUE(lines.next()->has_value());
  EXPECT_FALSE(lines.next()->has_value());
}

TEST(ReportLines, ALineWithoutEndIsRefused) {
  ReportLines lines;
  lines.append(std::string(static_cast<size_t>(kReportLineBytesMax) + 1, 'x'));
  EXPECT_TRUE(absl::IsDataLoss(lines.next().status()));
}

TEST(ReportLines, NothingIsReadBehindADamagedLine) {
  ReportLines lines;
  lines.append("nonsense\n" + encode(step_report()));
  EXPECT_FALSE(lines.next().ok());
  EXPECT_FALSE(lines.next().ok());
}

}  // namespace
}  // namespace evermoe
