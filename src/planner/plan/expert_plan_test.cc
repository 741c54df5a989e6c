#include <gtest/gtest.h>

#include <string>

#include "planner/plan/expert_plan.h"

namespace evermoe {
namespace {

TEST(ExpertPlanTest, ReplicasOverTheNodesOfAStage) {
  // 8 nodes of 8 lanes in one stage, 8 experts with 8 replicas: each node has each expert.
  const ExpertPlan everywhere =
      plan_experts({.lanes_per_node = 8, .experts = 8}, {.lanes = {64}, .expert_replicas = 8});
  EXPECT_EQ(everywhere.slots, 8);
  EXPECT_EQ(everywhere.distinct_least, 8);
  EXPECT_EQ(everywhere.survives_next, 0);
  // 4 nodes, 16 experts twice: 8 slots, two groups of two nodes each; of 6 pairs of nodes 2 lose a
  // group.
  const ExpertPlan twice =
      plan_experts({.lanes_per_node = 1, .experts = 16}, {.lanes = {4, 4}, .expert_replicas = 2});
  EXPECT_EQ(twice.distinct_least, 2);
  EXPECT_NEAR(twice.survives_next, 4.0 / 6, 1e-12);
  EXPECT_NE(twice.reason.find("every expert survives any failed node of a stage; after 2 failed "
                              "nodes all experts are still there with probability 0.6667"),
            std::string::npos);
  EXPECT_EQ(plan_experts({.lanes_per_node = 8, .experts = 8}, {.lanes = {4}}).distinct_least, 1);
}

}  // namespace
}  // namespace evermoe
