// That the benchmark of changes measures what it says: the connections that transports have made
// are those that a job's traffic names.
#include <gtest/gtest.h>

#include "process_changes.h"
#include "simulated_changes.h"

namespace evermoe {
namespace {

TEST(ChangeBenchTest, UpTo32RanksAllAreConnectedWithAll) {
  const JobPairs pairs = pairs_of({.stages = 8, .lanes = 4});
  EXPECT_EQ(pairs.connections(/*of_each_kind=*/false), 32 * 31 / 2);
  EXPECT_EQ(pairs.with(16).connections(false), 31);
  // Copies go to the next stage and the one after it.
  EXPECT_EQ(pairs.with(16).connections(true), 31 + 4);
}

TEST(ChangeBenchTest, BeyondARankHasItsStageItsNeighboursAndItsBranches) {
  const JobPairs pairs = pairs_of({.stages = 16, .lanes = 4});
  // 17 with 16, 18, 19; 13, 21; copies to and from 9, 25. Its parent is 16, and it has no children.
  EXPECT_EQ(pairs.with(17).connections(false), 7);
  // Of the tree 16 has a parent, 0, and children: two in its stage, 20 and 24, which it has anyway.
  EXPECT_EQ(pairs.with(16).connections(false), 8);
}

void expect_costs(const std::vector<ChangeRound>& rounds, int64_t change, int64_t prepared,
                  int64_t rebuild) {
  ASSERT_FALSE(rounds.empty());
  for (const ChangeRound& round : rounds) {
    EXPECT_EQ(round.step.connections, 0);
    EXPECT_EQ(round.change.connections, change);
    EXPECT_EQ(round.prepared.connections, prepared);
    EXPECT_EQ(round.rebuild.connections, rebuild);
    EXPECT_GT(round.step.ms, 0);
  }
}

TEST(ChangeBenchTest, TheSimulatedNetworkMakesThem) {
  expect_costs(SimulatedChanges({.stages = 4, .lanes = 2}, 3, /*seed=*/1).run(), 7, 0, 28);
  const std::vector<ChangeRound> rounds = SimulatedChanges({16, 4}, 3, /*seed=*/1).run();
  EXPECT_EQ(rounds[0].change.connections, pairs_of({16, 4}).with(0).connections(false));
}

TEST(ChangeBenchTest, RealTransportsMakeThem) {
  expect_costs(measure_process_changes({{2, 2}, "unix", 2}), 3, 0, 6);
  // Each lane with its neighbour stage: messages and copies.
  expect_costs(measure_process_changes({{2, 2}, "ucx", 2}), 4, 0, 8);
}

}  // namespace
}  // namespace evermoe
