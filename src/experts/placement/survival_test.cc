#include "experts/placement/survival.h"

#include <gtest/gtest.h>

#include <numeric>

#include "experts/placement/placements_testing.h"
#include "parallel/random_testing.h"

namespace evermoe {
namespace {

SurvivalCurve curve_of(const ExpertsOfNodes& plan, int experts) {
  auto curve = survival_curve(plan, experts);
  EXPECT_TRUE(curve.ok()) << curve.status();
  return curve.ok() ? *std::move(curve) : SurvivalCurve{};
}

// One expert on each group of nodes, and nothing on the rest.
ExpertsOfNodes disjoint_groups(const std::vector<int>& sizes, int nodes) {
  ExpertsOfNodes plan;
  for (size_t expert = 0; expert < sizes.size(); ++expert) {
    for (int i = 0; i < sizes[expert]; ++i) plan.push_back({static_cast<int>(expert)});
  }
  plan.resize(nodes);
  return plan;
}

void expect_relative(double actual, double expected, double tolerance) {
  EXPECT_NEAR(actual, expected, tolerance * expected);
}

TEST(SurvivalTest, WorkedExample) {
  const SurvivalCurve curve = curve_of(disjoint_groups({5, 5}, 10), 2);
  EXPECT_NEAR(curve.survived[5], 250.0 / 252, 1e-15);
  EXPECT_NEAR(curve.survived[6], 200.0 / 210, 1e-15);
  EXPECT_NEAR(curve.survived[7], 100.0 / 120, 1e-15);
  EXPECT_NEAR(curve.survived[8], 25.0 / 45, 1e-15);
  EXPECT_EQ(curve.survived[0], 1);
  EXPECT_EQ(curve.lost[4], 0);
  EXPECT_EQ(curve.lost[10], 1);
}

TEST(SurvivalTest, EqualsEnumerationOnArbitraryPlans) {
  TestRandom random(21);
  for (int trial = 0; trial < 3000; ++trial) {
    const int nodes = random.integer(1, 10), experts = random.integer(1, 12);
    const int slots = random.integer(1, 5);
    ExpertsOfNodes plan(nodes);
    for (auto& on_node : plan) {
      for (int i = random.integer(0, slots); i > 0; --i)
        on_node.push_back(random.integer(0, experts - 1));
    }
    const SurvivalCurve curve = curve_of(plan, experts);
    const std::vector<int64_t> lost = lost_cases(plan, experts);
    double cases = 1;
    for (int k = 0; k <= nodes; ++k) {
      ASSERT_NEAR(curve.lost[k], static_cast<double>(lost[k]) / cases, 1e-14);
      ASSERT_NEAR(curve.survived[k], 1 - static_cast<double>(lost[k]) / cases, 1e-14);
      cases = cases * (nodes - k) / (k + 1);
    }
  }
}

// The expected values are ratios of big integers.
TEST(SurvivalTest, EqualsExactRationalsFor1024Nodes) {
  std::vector<int> sizes;
  for (int i = 0; i < 60; ++i) sizes.push_back(8 + (7 * i) % 13);
  const SurvivalCurve many = curve_of(disjoint_groups(sizes, 1024), 60);
  EXPECT_EQ(many.lost[7], 0);
  expect_relative(many.lost[8], 1.7139384149459193e-19, 1e-14);
  expect_relative(many.lost[9], 1.5440628259842518e-18, 1e-14);
  expect_relative(many.lost[20], 2.1848278966803856e-14, 1e-14);
  expect_relative(many.lost[100], 3.5066068558619916e-08, 1e-14);
  expect_relative(many.lost[300], 0.0003555698113277899, 1e-14);
  expect_relative(many.survived[500], 0.9702766719962972, 1e-14);
  expect_relative(many.survived[700], 0.48124303133109936, 1e-14);
  expect_relative(many.survived[900], 2.2214796412956874e-07, 1e-14);
  expect_relative(many.survived[964], 3.6921025618276144e-31, 1e-14);
  EXPECT_EQ(many.survived[965], 0);  // fewer live nodes than groups

  const SurvivalCurve few = curve_of(disjoint_groups({40, 50, 60, 200}, 1024), 4);
  EXPECT_EQ(few.lost[39], 0);
  expect_relative(few.lost[40], 6.83588281495241e-73, 1e-14);
  expect_relative(few.lost[60], 2.865495782018846e-57, 1e-14);
  expect_relative(few.lost[400], 1.3469529675329833e-17, 1e-14);
  expect_relative(few.lost[900], 0.006796983089076681, 1e-14);
  expect_relative(few.survived[1020], 0.0005269510269027694, 1e-14);
}

// MRO-q on 1000 nodes of 6 slots with 8 equal experts: every node misses one of four pairs of
// experts, so a loss takes all live nodes inside one of four sets of 250.
TEST(SurvivalTest, EqualsTheClosedFormOfOverlappingSets) {
  const auto placement = place_replicas(std::vector<int>(8, 750), 1000, 6);
  ASSERT_TRUE(placement.ok());
  const SurvivalCurve curve = curve_of(placement->experts_of, 8);
  long double inside = 1;  // C(250, live) / C(1000, live)
  for (int live = 1; live <= 250; ++live) {
    inside *= static_cast<long double>(250 - live + 1) / (1000 - live + 1);
    expect_relative(curve.lost[1000 - live], static_cast<double>(4 * inside), 1e-13);
  }
  EXPECT_LT(curve.lost[800], 1e-150);
  EXPECT_EQ(curve.lost[749], 0);
}

TEST(SurvivalTest, NeverRisesWithMoreFailuresAndSumsToOne) {
  TestRandom random(22);
  for (int trial = 0; trial < 200; ++trial) {
    const int nodes = random.integer(2, 200), slots = random.integer(1, 8);
    std::vector<int> replicas;
    for (int left = nodes * slots; left > 0; left -= replicas.back()) {
      replicas.push_back(static_cast<int>(replicas.size()) == 16 ? left : random.integer(1, left));
    }
    const int experts = static_cast<int>(replicas.size());
    for (const auto method : {PlacementMethod::kMro, PlacementMethod::kMroQ}) {
      const auto placement = place_replicas(replicas, nodes, slots, {.method = method});
      ASSERT_TRUE(placement.ok()) << placement.status();
      const SurvivalCurve curve = curve_of(placement->experts_of, experts);
      for (int k = 0; k <= nodes; ++k) {
        ASSERT_NEAR(curve.survived[k] + curve.lost[k], 1, 1e-15);
        if (k > 0) {
          ASSERT_LE(curve.survived[k], curve.survived[k - 1] * (1 + 1e-15));
        }
        if (k < placement->distinct_least) {
          ASSERT_EQ(curve.lost[k], 0);
        }
      }
      ASSERT_GT(curve.lost[placement->distinct_least], 0);
    }
  }
}

TEST(SurvivalTest, AnExpertOnNoNodeIsAlwaysLost) {
  const SurvivalCurve curve = curve_of({{0}, {0}}, 2);
  EXPECT_EQ(curve.survived, (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(curve_of({{}, {}}, 0).survived, (std::vector<double>{1, 1, 1}));
}

TEST(SurvivalTest, RefusesWhatItCannotDo) {
  EXPECT_EQ(survival_curve({}, 1).status().message(), "there are no nodes");
  EXPECT_EQ(survival_curve({{0, 3}}, 3).status().message(), "expert 3 of 3");
  EXPECT_EQ(survival_curve(ExpertsOfNodes(16'001), 0).status().message(),
            "16001 nodes are more than 16000");
  // A long chain of experts on neighbouring pairs of nodes: unions of pairs are every way to cut
  // it.
  ExpertsOfNodes chain(60);
  for (int node = 0; node < 60; ++node) chain[node] = {node, (node + 1) % 60};
  const auto tangled = survival_curve(chain, 60);
  EXPECT_EQ(tangled.status().code(), absl::StatusCode::kUnimplemented) << tangled.status();
}

TEST(SurvivalTest, DomainsFailAsOne) {
  const ExpertsOfNodes plan = {{0, 1}, {1, 1}, {0}, {2}, {2, 0}};
  const ExpertsOfNodes racks = experts_of_domains(plan, {0, 0, 1, 1, 2});
  EXPECT_EQ(racks, (ExpertsOfNodes{{0, 1}, {0, 2}, {0, 2}}));
  EXPECT_DOUBLE_EQ(curve_of(racks, 3).survived[1], 2.0 / 3);  // expert 1 is in the first rack only
}

}  // namespace
}  // namespace evermoe
