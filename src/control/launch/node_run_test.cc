#include "control/launch/node_run.h"

#include <gtest/gtest.h>

#include "config/job_config.h"

namespace evermoe {
namespace {

JobConfig job_of(std::vector<int64_t> lanes, int64_t racks) {
  JobConfig config;
  config.parallel.lanes = std::move(lanes);
  config.run.racks = racks;
  return config;
}

TEST(DealNodesTest, NodesWithoutARoleAreSpares) {
  JobConfig config = job_of({2, 2}, 0);
  ASSERT_TRUE(deal_nodes(7, 1, config).ok());
  EXPECT_EQ(config.run.nodes, 4);
  EXPECT_EQ(config.run.spares, 3);
}

TEST(DealNodesTest, SomeAreLeftToBeginWith) {
  JobConfig config = job_of({2, 2}, 0);
  EXPECT_EQ(deal_nodes(2, 2, config).message(),
            "--spares: found 2, allowed: fewer than the nodes there are (2)");
}

// Whatever run.nodes is, which a launcher overrules.
TEST(DealNodesTest, RacksAreOfAllNodes) {
  JobConfig config = job_of({2, 2}, 6);
  ASSERT_TRUE(deal_nodes(6, 1, config).ok());
  EXPECT_EQ(config.run.racks, 6) << "a spare in a rack of its own does not share one";
  EXPECT_EQ(deal_nodes(5, 1, config).message(),
            "run.racks: found 6, allowed: at most as many as nodes, with spares (5)");
}

}  // namespace
}  // namespace evermoe
