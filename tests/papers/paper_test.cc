// What MoEtion prints, each with the tolerance that is honest for it.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "papers/paper_comparison.h"
#include "papers/results_input.h"
#include "planner/report/csv_table.h"

namespace evermoe {
namespace {

const PaperTables& tables() {
  static const PaperTables& tables = *new PaperTables(load_results_input().value().tables);
  return tables;
}

Deviation deviation(const std::vector<EttrComparison>& rows, size_t skipped = 0) {
  std::vector<double> differences;
  for (size_t i = skipped; i < rows.size(); ++i) differences.push_back(rows[i].difference());
  return deviation_of(differences);
}

TEST(PaperTest, MoetionTable3) {
  const Deviation formula = deviation(compare_moetion(tables(), "Table 3", kFormulaReading, 200));
  EXPECT_LT(formula.rms, 0.0105);
  EXPECT_LT(formula.worst, 0.02);
  const Deviation fitted = deviation(compare_moetion(tables(), "Table 3", kFittedReading, 200));
  EXPECT_LT(fitted.rms, 0.006);
  EXPECT_LT(fitted.worst, 0.012);
}

TEST(PaperTest, MoetionTable7) {
  const auto rows = compare_moetion(tables(), "Table 7", kFormulaReading, 200);
  EXPECT_EQ(rows[0].paper.mtbf, "1H");  // FP16: above 1 / (1 + o)
  EXPECT_LT(deviation(rows, 1).rms, 0.012);
  EXPECT_LT(deviation(rows, 1).worst, 0.025);
}

TEST(PaperTest, GeminiRecoveryOfDeepSeek) {
  for (const RecoveryComparison& row : compare_gemini_recovery(tables(), 200)) {
    EXPECT_NEAR(row.paper.recovery_seconds / row.formula_seconds, 1, 0.01) << row.paper.mtbf;
    // The interval with its stalls is what a failure cuts in half; a bit less, as failures come
    // early.
    const double step = tables().inputs_of("Table 3", "DeepSeek-MoE").step_seconds;
    const double longer = row.formula_seconds * (1 + row.paper.overhead_seconds / step);
    EXPECT_NEAR(row.ours.mean, longer, 4 * row.ours.error + 0.04 * longer) << row.paper.mtbf;
  }
}

TEST(PaperTest, GeminiIntervals) {
  for (const IntervalComparison& row : compare_gemini_intervals(tables())) {
    EXPECT_NEAR(row.interval_steps / row.paper.interval_steps, 1, 0.15)
        << row.paper.model << " " << row.paper.mtbf;
  }
}

TEST(PaperTest, DenseEttrsNeedARestartCost) {
  for (const DenseFit& fit : fit_dense(tables(), "Table 3")) {
    EXPECT_GT(fit.printed.rms, 0.03) << fit.system << " " << fit.model;
    EXPECT_LT(fit.fitted.rms, 0.02) << fit.system << " " << fit.model;
  }
}

TEST(PaperTest, WindowsByOneBandwidth) {
  int agree = 0;
  for (const WindowComparison& row : compare_windows(tables(), kFittedWindowBandwidth)) {
    agree += row.algorithm1 == row.paper.window;
    EXPECT_LE(row.minimal, row.algorithm1);
  }
  EXPECT_EQ(agree, 6);
  // Real hardware: 96 GPUs of 25 GB/s.
  for (const WindowComparison& row : compare_windows(tables(), 96 * 25e9))
    EXPECT_EQ(row.minimal, 1);
}

TEST(PaperTest, MocStallsByOneBandwidth) {
  const auto rows = compare_moc_stalls(tables());
  ASSERT_EQ(rows.size(), 5u);
  for (const StallComparison& row : rows)
    EXPECT_NEAR(row.seconds_per_byte, 1.084, 0.0022) << row.paper.model;
}

TEST(PaperTest, HostMemory) {
  for (const MemoryComparison& row : compare_memory(tables())) {
    EXPECT_NEAR(row.gemini_per_parameter, 26, 0.02) << row.paper.model;
    if (row.sparse_extra_expected != 2) continue;
    EXPECT_NEAR(row.sparse_extra / 2, 1, 0.06) << row.paper.model;
  }
}

TEST(PaperTest, OrderOfSystemsAtScale) {
  double last_ratio = 1;
  const auto rows = compare_scale(100);
  ASSERT_EQ(rows.size(), 12u);
  for (const ScaleComparison& row : rows) {
    const double ratio = row.moetion.mean / row.gemini.mean;
    if (row.mtbf_seconds == 3600) {
      EXPECT_GE(row.moetion.mean, 0.91) << row.gpus;
      last_ratio = 1;
    }
    EXPECT_GT(ratio, last_ratio) << row.gpus << " " << row.mtbf_seconds;
    last_ratio = ratio;
  }
  EXPECT_EQ(rows.back().gpus, 16384);
  EXPECT_NEAR(last_ratio, 1.55, 0.15);
}

TEST(PaperTest, LogsOfFigure9b) {
  EXPECT_LT(localized_share(3, 6), 1 - 0.23);
  EXPECT_GT(localized_share(3, 7), 1 - 0.23);
}

TEST(PaperTest, OrderOfSystemsOnSixHoursOfFailures) {
  const TraceComparison trace = compare_six_hours(tables());
  EXPECT_EQ(trace.failures, 24);
  EXPECT_GT(trace.moetion, trace.gemini);
  EXPECT_GT(trace.gemini, trace.checkfreq);
  EXPECT_NEAR(trace.moetion / trace.checkfreq, 1.25, 0.1);
  EXPECT_NEAR(trace.moetion / trace.gemini, 1.15, 0.1);
}

TEST(PaperTablesTest, WrongTablesAreNamed) {
  PaperTexts broken = paper_texts().value();
  broken.table6 = "model,gemini_cpu_GB\nA,x\n";
  EXPECT_EQ(parse_paper_tables(broken).status().message(),
            "table6_memory.csv:2: found \"x\" in column gemini_cpu_GB, allowed: a number");
  broken = paper_texts().value();
  broken.derived_inputs.resize(broken.derived_inputs.find('\n') + 1);
  EXPECT_EQ(parse_paper_tables(broken).status().message(),
            "derived_inputs.csv: found no MoE-LLaVa, allowed: all of Table 3");
}

TEST(CsvTableTest, QuotesHoldCommasAndQuotes) {
  const auto table = CsvTable::parse("a,b\n\"x, \"\"y\"\"\",2\r\n\n,3\n", "t");
  ASSERT_TRUE(table.ok());
  ASSERT_EQ(table->rows(), 2);
  CsvTable::Row row = table->row(0);
  EXPECT_EQ(row.text("a"), "x, \"y\"");
  EXPECT_EQ(row.number("b"), 2);
  CsvTable::Row empty = table->row(1);
  EXPECT_EQ(empty.number_or("a", 7), 7);
  empty.number("c");
  EXPECT_EQ(empty.status().message(),
            "t:4: found no field in column c, allowed: a table with this column");
}

TEST(CsvTableTest, WrongTextsAreNamed) {
  EXPECT_EQ(CsvTable::parse("a,b\n1\n", "t").status().message(),
            "t:2: found 1 fields, allowed: 2 as in the header");
  EXPECT_EQ(CsvTable::parse("a,a\n", "t").status().message(),
            "t:1: found \"a\", allowed: each column once");
  EXPECT_EQ(CsvTable::parse("a\n\"x\n", "t").status().message(),
            "t:2: found \"\\\"x\", allowed: closed quotes");
  EXPECT_FALSE(CsvTable::parse("", "t").ok());
}

}  // namespace
}  // namespace evermoe
