// Lazarus's figures against the placement, migration and simulation of this project.
#include <gtest/gtest.h>

#include "papers/lazarus_comparison.h"
#include "papers/results_input.h"

namespace evermoe {
namespace {

const ResultsInput& lazarus_input() {
  static const ResultsInput& input = *new ResultsInput(load_results_input().value());
  return input;
}

LayerLoads loads_of(int model, int iteration) {
  return lazarus_loads(lazarus_input().routing, iteration,
                       lazarus_models()[static_cast<size_t>(model)].experts);
}

TEST(LazarusPaperTest, StateOfAnExpert) {
  EXPECT_DOUBLE_EQ(lazarus_expert_bytes(lazarus_models()[0]), 63 << 20);
  EXPECT_DOUBLE_EQ(lazarus_expert_bytes(lazarus_models()[2]), 112 << 20);
}

TEST(LazarusPaperTest, SurvivalOfFigure8) {
  for (const int model : {0, 2}) {
    for (const int iteration : {201, 4001}) {
      const LayerLoads loads = loads_of(model, iteration);
      const auto ours = model_survival(loads, PlacementMethod::kMroQ),
                 mro = model_survival(loads, PlacementMethod::kMro),
                 spread = model_survival(loads, PlacementMethod::kSpread),
                 compact = model_survival(loads, PlacementMethod::kCompact);
      EXPECT_DOUBLE_EQ(ours[1], 1) << model << " " << iteration;  // f = 2
      for (size_t lost = 1; lost <= 8; ++lost) {
        EXPECT_GE(ours[lost] + 1e-12, mro[lost]) << model << " " << iteration << " " << lost;
        EXPECT_GE(ours[lost] + 1e-12, spread[lost]) << model << " " << iteration << " " << lost;
        EXPECT_GE(ours[lost] + 1e-12, compact[lost]) << model << " " << iteration << " " << lost;
      }
    }
  }
}

TEST(LazarusPaperTest, Figure8PrintsFourLostNodesWhereWeHaveFive) {
  const LayerLoads loads = loads_of(2, 201);
  EXPECT_NEAR(model_survival(loads, PlacementMethod::kMro)[5], 0.41, 0.01);
  EXPECT_NEAR(model_survival(loads, PlacementMethod::kSpread)[5], 0.12, 0.01);
  EXPECT_GT(model_survival(loads, PlacementMethod::kMro)[4], 0.6);
}

TEST(LazarusPaperTest, OnePopularExpertOfFigure10) {
  double slower = 0, less = 2;
  for (const int ratio : {1, 2, 4}) {
    const LayerLoads loads = uneven_loads(ratio);
    const LayerSlowdown slowdown = mean_slowdown(loads, 2);
    EXPECT_GT(slowdown.groups, slower);
    EXPECT_LT(slowdown.adaptive, 1.15) << ratio;
    slower = slowdown.groups;
    const double ours = model_survival(loads, PlacementMethod::kMroQ)[4];
    EXPECT_LE(ours, less);
    EXPECT_GE(ours, model_survival(loads, PlacementMethod::kSpread)[4]);
    less = ours;
  }
}

TEST(LazarusPaperTest, MigrationsOfTable2) {
  const MigrationRange small = migrations(lazarus_models()[0], loads_of(0, 201), 2),
                       large = migrations(lazarus_models()[2], loads_of(2, 201), 4);
  EXPECT_EQ(small.sets, 45);
  EXPECT_EQ(large.sets, 210);
  EXPECT_GT(small.survived, 0);
  EXPECT_GT(large.mean, small.mean);
  EXPECT_LT(small.round_seconds, 2.3);  // the paper's is not bytes alone
}

struct PrintedRatio {
  int model;
  double deep_speed, fault_tolerant;
};

TEST(LazarusPaperTest, SamplesOfFigure6) {
  const FailureTrace trace = one_by_one(300);
  for (const PrintedRatio& printed : {PrintedRatio{0, 2.8, 1.4}, PrintedRatio{2, 5.7, 2.8}}) {
    const LazarusModel& model = lazarus_models()[static_cast<size_t>(printed.model)];
    auto samples = [&](LazarusSystem system, int64_t every) {
      return play_lazarus({model, system, every, 1800}, trace).samples;
    };
    const double lazarus = samples(LazarusSystem::kLazarus, 250),
                 tolerant = samples(LazarusSystem::kDeepSpeedFaultTolerant, 250),
                 deep_speed = samples(LazarusSystem::kDeepSpeed, 50);
    EXPECT_GT(lazarus, tolerant);
    EXPECT_GT(tolerant, deep_speed);
    EXPECT_NEAR(lazarus / deep_speed / printed.deep_speed, 1, 0.2) << model.name;
    EXPECT_NEAR(lazarus / tolerant / printed.fault_tolerant, 1, 0.25) << model.name;
  }
}

TEST(LazarusPaperTest, SpotTraceOfFigure9) {
  const FailureTrace ten = ten_spot_nodes(lazarus_input().spot);
  EXPECT_LE(ten.summary().nodes_max, kLazarusNodes);
  const LazarusModel& model = lazarus_models()[2];
  const LazarusRunEnd lazarus = play_lazarus({model, LazarusSystem::kLazarus, 250, 4800}, ten);
  EXPECT_EQ(lazarus.run.fallbacks, 1);  // four nodes at minute 34
  const double tolerant =
                   play_lazarus({model, LazarusSystem::kDeepSpeedFaultTolerant, 250, 4800}, ten)
                       .samples,
               deep_speed = play_lazarus({model, LazarusSystem::kDeepSpeed, 50, 4800}, ten).samples;
  EXPECT_GT(lazarus.samples, tolerant);
  EXPECT_GT(tolerant, deep_speed);
}

TEST(LazarusPaperTest, GrowthOfFigure13) {
  const CompletionRatios seldom = completion_ratios(64, 0.01, 5),
                         often = completion_ratios(64, 0.15, 5);
  EXPECT_GT(often.fault_tolerant, seldom.fault_tolerant);
  EXPECT_GT(often.deep_speed / seldom.deep_speed, often.fault_tolerant / seldom.fault_tolerant);
}

}  // namespace
}  // namespace evermoe
