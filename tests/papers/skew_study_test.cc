// Popularity as drawn, and what orders of a window make of it.
#include <gtest/gtest.h>

#include "papers/results_input.h"
#include "papers/skew_study.h"

namespace evermoe {
namespace {

const PaperTables& skew_tables() {
  static const PaperTables& tables = *new PaperTables(load_results_input().value().tables);
  return tables;
}

TEST(SkewStudyTest, DrawnPopularityHasTheSkewnessOfItsAlpha) {
  // The alphas that the paper prints for 64 experts.
  EXPECT_NEAR(alpha_of_skewness(0.25, 64), 0.0469, 0.00005);
  EXPECT_NEAR(alpha_of_skewness(0.50, 64), 0.0156, 0.00005);
  EXPECT_NEAR(alpha_of_skewness(0.75, 64), 0.0052, 0.00005);
  EXPECT_NEAR(alpha_of_skewness(0.99, 64), 0.000158, 0.0000005);
  for (const double skewness : {0.25, 0.5, 0.75, 0.99}) {
    RandomStream random(7, 1);
    double sum = 0;
    for (int i = 0; i < 4000; ++i)
      sum += skewness_of(draw_popularity(alpha_of_skewness(skewness, 64), 64, random));
    EXPECT_NEAR(sum / 4000, skewness, 0.015);
  }
}

TEST(SkewStudyTest, RelationsOfFigure16) {
  const auto rows = study_skew(skew_tables(), 60);
  ASSERT_EQ(rows.size(), 5u);
  double saved = 0;
  for (const SkewRow& row : rows) {
    // Uniform popularity is the worst case for reordering.
    EXPECT_GT(row.saved_unpopular, saved - 0.002) << row.skewness;
    saved = row.saved_unpopular;
    const double gain = row.skewness > 0 ? 0.01 : -1e-9;
    EXPECT_GT(row.saved_unpopular, row.saved_index + gain) << row.skewness;
    EXPECT_GE(row.saved_unpopular + 1e-12, row.saved_popular) << row.skewness;
    EXPECT_LE(row.saved_unpopular, 1.0 / 3) << row.skewness;
    EXPECT_GE(row.ettr_unpopular + 1e-12, row.ettr_index) << row.skewness;
  }
  EXPECT_NEAR(rows[0].saved_unpopular, rows[0].saved_index, 1e-9);
  EXPECT_NEAR(rows[0].active, 64, 1e-6);
  EXPECT_LT(rows[4].active, 8);  // Fig. 15's "most" is not this law's
}

TEST(SkewStudyTest, EachTechniqueOfFigure13Helps) {
  const auto rows = study_techniques(skew_tables(), 60);
  ASSERT_EQ(rows.size(), 4u);
  for (const TechniqueRow& row : rows) {
    EXPECT_GT(row.skips, row.sparse) << row.model;
    EXPECT_GE(row.reorders, row.skips) << row.model;
    EXPECT_GT(row.logs, row.reorders) << row.model;
  }
  const auto logs = [&](size_t i) { return rows[i].logs - rows[i].reorders; };
  for (const size_t i : {0u, 1u, 2u}) EXPECT_GT(logs(3), logs(i));  // DeepSeek-MoE gains most
}

}  // namespace
}  // namespace evermoe
