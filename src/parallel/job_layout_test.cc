#include "parallel/job_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace evermoe {
namespace {

using testing::ElementsAre;

std::vector<int> first_nodes(int ranks, int nodes) {
  std::vector<int> found;
  for (int rank = 0; rank < ranks; ++rank) found.push_back(first_node_of(rank, ranks, nodes));
  return found;
}

TEST(JobLayoutTest, BlocksOfNeighboursBeginOnANode) {
  EXPECT_THAT(first_nodes(4, 1), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(first_nodes(4, 2), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(first_nodes(4, 3), ElementsAre(0, 0, 1, 2));
  EXPECT_THAT(first_nodes(4, 6), ElementsAre(0, 1, 3, 4));  // nodes 2 and 5 play nothing
}

TEST(JobLayoutTest, CopiesGoAsFarAsThereAreDomains) {
  const Topology topology({2, 2}, 2);
  const auto holders = [&](std::vector<int> nodes, int racks, int copies, auto level) {
    return job_copy_holders(topology, nodes, domains_in_racks(4, racks), copies, level)
        .holders_of[0];
  };
  const std::optional<DomainLevel> rack = DomainLevel::kRack, node = DomainLevel::kNode;
  // Racks of nodes 0 and 1, 2 and 3.
  EXPECT_GE(holders({0, 1, 2, 3}, 2, 1, rack)[0], Rank(2));
  EXPECT_EQ(holders({0, 1, 2, 3}, 2, 3, rack).size(), 3u) << "two racks, so nodes";
  EXPECT_EQ(holders({0, 0, 1, 1}, 0, 2, node).size(), 2u) << "two nodes, so processes";
  EXPECT_EQ(holders({0, 0, 0, 0}, 0, 1, node).size(), 1u);
}

}  // namespace
}  // namespace evermoe
