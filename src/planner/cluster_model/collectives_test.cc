// Collectives against rings played message by message.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "planner/cluster_model/cluster_spec.h"
#include "planner/cluster_model/collectives.h"

namespace evermoe {
namespace {

const Link kLink{.bytes_per_second = 1e9, .latency_seconds = 1e-5};

// A ring that passes chunks on until every rank has added (or has) all of them, message by message.
double played_ring(int ranks, double bytes, const Link& link, int rounds) {
  double seconds = 0;
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::vector<bool>> has(static_cast<size_t>(ranks),
                                       std::vector<bool>(static_cast<size_t>(ranks), false));
    for (int r = 0; r < ranks; ++r) has[static_cast<size_t>(r)][static_cast<size_t>(r)] = true;
    for (int step = 0;; ++step) {
      bool complete = true;
      for (const auto& row : has) complete &= std::accumulate(row.begin(), row.end(), 0) == ranks;
      if (complete) break;
      for (int r = 0; r < ranks; ++r) {  // sends what came in the step before
        const auto to = static_cast<size_t>((r + 1) % ranks),
                   chunk = static_cast<size_t>(((r - step) % ranks + ranks) % ranks);
        EXPECT_TRUE(has[static_cast<size_t>(r)][chunk]);
        has[to][chunk] = true;
      }
      seconds += link.message(bytes / ranks);
    }
  }
  return seconds;
}

TEST(CollectivesTest, RingsTakeWhatTheirMessagesTake) {
  for (const int ranks : {1, 2, 3, 8}) {
    EXPECT_NEAR(ring_gather_seconds(ranks, 1e6, kLink), played_ring(ranks, 1e6, kLink, 1), 1e-12)
        << ranks;
    EXPECT_NEAR(ring_all_reduce_seconds(ranks, 1e6, kLink), played_ring(ranks, 1e6, kLink, 2),
                1e-12)
        << ranks;
  }
}

TEST(CollectivesTest, InsideANodeOnlyTheFabricCounts) {
  const Fabric fabric{{1e11, 1e-6}, {1e9, 1e-5}, 8};
  EXPECT_EQ(all_reduce_seconds(8, 1e8, fabric), ring_all_reduce_seconds(8, 1e8, fabric.inside));
  EXPECT_NEAR(all_to_all_seconds(8, 8e8, fabric), 7 * (1e-6 + 1e8 / 1e11), 1e-12);
  EXPECT_EQ(all_to_all_seconds(1, 1e8, fabric), 0);
}

// Two levels: every GPU carries an eighth across; most of an exchange over 4 nodes crosses.
TEST(CollectivesTest, AcrossNodesTheNicCounts) {
  const Fabric fabric{{1e11, 0}, {1e9, 0}, 8};
  EXPECT_NEAR(gather_seconds(32, 3.2e9, fabric), 7.0 / 8 * 3.2e9 / 1e11 + 3.0 / 4 * 4e8 / 1e9,
              1e-12);
  EXPECT_NEAR(all_to_all_seconds(32, 3.2e9, fabric), 24 * 1e8 / 1e9, 1e-12);
  EXPECT_LT(gather_seconds(32, 3.2e9, fabric), ring_gather_seconds(32, 3.2e9, fabric.across));
}

}  // namespace
}  // namespace evermoe
