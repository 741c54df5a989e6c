#include <gtest/gtest.h>

#include <algorithm>

#include "experts/placement/expert_placement.h"
#include "experts/placement/rank_state.h"
#include "parallel/topology.h"

namespace evermoe {
namespace {

TEST(TopologyTest, RanksAndRolesAreInverse) {
  const Topology topology({2, 1, 3}, 7);
  EXPECT_EQ(topology.world_size(), 6);
  for (int r = 0; r < 6; ++r) EXPECT_EQ(topology.rank_of(topology.role_of(Rank(r))), Rank(r));
  EXPECT_EQ(topology.role_of(Rank(2)), (Role{1, 0}));
  EXPECT_EQ(topology.stage_group(2), (std::vector<Rank>{Rank(3), Rank(4), Rank(5)}));
}

TEST(TopologyTest, EveryLayerLivesOnOneStageAndCountsDifferByAtMostOne) {
  for (int stages = 1; stages <= 5; ++stages) {
    for (int64_t layers = stages; layers <= 12; ++layers) {
      const Topology topology(std::vector<int>(stages, 1), layers);
      EXPECT_EQ(topology.first_layer(0), 0);
      EXPECT_EQ(topology.first_layer(stages), layers);
      for (int s = 0; s < stages; ++s) {
        const int64_t held = topology.first_layer(s + 1) - topology.first_layer(s);
        EXPECT_GE(held, layers / stages);
        EXPECT_LE(held, (layers + stages - 1) / stages);
      }
    }
  }
}

TEST(EvaluationBatchTest, HasFullRoundsInEveryStageAndNoMoreMicroBatchesThanAStep) {
  EXPECT_EQ(evaluation_batch(Topology({1, 1}, 2), 5), 5);
  EXPECT_EQ(evaluation_batch(Topology({2, 2}, 2), 5), 4);
  EXPECT_EQ(evaluation_batch(Topology({2, 3}, 2), 16), 12);
  EXPECT_EQ(evaluation_batch(Topology({2, 3}, 2), 5), 5) << "no full rounds of both are that few";
}

TEST(ExpertPlacementTest, UniformIsEvenAndReplicasAreOnDistinctLanes) {
  for (int experts = 1; experts <= 9; ++experts) {
    for (int lanes = 1; lanes <= 6; ++lanes) {
      for (int replicas = 1; replicas <= lanes; ++replicas) {
        const auto placement = ExpertPlacement::uniform(experts, lanes, replicas);
        size_t least = 1000, most = 0;
        for (int lane = 0; lane < lanes; ++lane) {
          least = std::min(least, placement.experts_on(lane).size());
          most = std::max(most, placement.experts_on(lane).size());
        }
        EXPECT_LE(most - least, 1u) << experts << " experts " << lanes << " lanes " << replicas;
        for (int e = 0; e < experts; ++e) {
          EXPECT_EQ(placement.lanes_of(e).size(), static_cast<size_t>(replicas));
        }
      }
    }
  }
}

TEST(ExpertPlacementTest, KnowsWhetherAnExpertIsOnSeveralLanes) {
  EXPECT_TRUE(ExpertPlacement({{0, 2}, {1}}, 3).has_replicas());
  EXPECT_FALSE(ExpertPlacement({{0}, {1}, {0}}, 3).has_replicas());
}

}  // namespace
}  // namespace evermoe
