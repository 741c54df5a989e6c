// Jobs of which any node may host, and hosts that are lost, stand still or are cut off; disks that
// are full.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/simulated_job_testing.h"

namespace evermoe {
namespace {

using Kind = SimulatedFault::Kind;
using testing::Contains;
using testing::IsEmpty;

constexpr Node kHost{-1};  // the node that hosts at that time

class HostsTest : public SimulatedJobTest {
 protected:
  HostsTest() {
    shape_.has_store = true;
    shape_.copies = 2;
    shape_.model.steps = 150;
  }
  // Of the host's node, while the job goes on.
  static SimulatedFault at_host(Kind kind, double lasts) {
    return {.kind = kind,
            .node = kHost,
            .lasts = absl::Milliseconds(lasts),
            .time = absl::Milliseconds(300)};
  }
};

TEST_F(HostsTest, OneOfTheNodesHosts) {
  const SimulatedOutcome outcome = survives({});
  EXPECT_EQ(outcome.controllers, 1);
  EXPECT_EQ(outcome.processes, 4);
}

TEST_F(HostsTest, WhenTheHostsMachineIsLostNobodyHasToHelp) {
  const SimulatedOutcome outcome = survives({at_host(Kind::kKillNode, 0)});
  EXPECT_THAT(outcome.marks, Contains("host lost with its machine")) << explain(outcome);
  EXPECT_THAT(outcome.marks, Contains("taken over by another host"));
  EXPECT_LE(outcome.processes, 5) << explain(outcome);
  for (const RecoveryRecord& record : outcome.recoveries) EXPECT_FALSE(record.restarted_all);
}

// Its controller does not notice.
TEST_F(HostsTest, AHostThatStoodStillFindsAnotherOneInItsPlace) {
  shape_.model.steps = 400;
  for (const Kind kind : {Kind::kStopAgent, Kind::kStopNode, Kind::kSuspendNode}) {
    const SimulatedOutcome outcome = survives({at_host(kind, 1500)});
    EXPECT_THAT(outcome.marks, Contains("old host wakes up")) << explain(outcome);
    EXPECT_THAT(outcome.marks, Contains("taken over by another host"));
    if (kind == Kind::kStopAgent) {
      EXPECT_EQ(outcome.processes, 4) << explain(outcome);
    }
  }
}

TEST_F(HostsTest, AHostThatCannotReachTheStoreLeavesAndTheJobGoesOn) {
  shape_.model.steps = 300;
  for (const Kind kind : {Kind::kCutStore, Kind::kMuteStore, Kind::kStopStore}) {
    const SimulatedOutcome outcome = survives({at_host(kind, 1500)});
    EXPECT_THAT(outcome.marks, Contains("host no longer elected")) << explain(outcome);
    EXPECT_THAT(outcome.marks, Contains("taken over by another host"));
    EXPECT_EQ(outcome.processes, 4) << "its own agent has stayed" << explain(outcome);
    for (const RecoveryRecord& record : outcome.recoveries) EXPECT_FALSE(record.restarted_all);
  }
}

TEST_F(HostsTest, AStoreThatForgotWhoHostsHasAnotherHost) {
  const SimulatedOutcome outcome = survives({{.kind = Kind::kChangeHost,
                                              .lasts = absl::Milliseconds(1),
                                              .time = absl::Milliseconds(300)}});
  EXPECT_THAT(outcome.recoveries, IsEmpty()) << explain(outcome);
  EXPECT_EQ(outcome.processes, 4) << explain(outcome);
}

// Whoever is elected meanwhile tries again; its own workers are not to pay for it.
TEST_F(HostsTest, WhileNoTermCanBeTakenTheJobGoesOnWithoutAHost) {
  shape_.model.steps = 300;
  SimulatedFault full = at_host(Kind::kFillDisk, 1500);
  full.rank = Rank(-1);
  int others = 0;  // that were not found in time by the host that came
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    shape_.network.seed = seed;
    const SimulatedOutcome outcome = survives({full, at_host(Kind::kKillNode, 0)});
    EXPECT_THAT(outcome.marks, Contains("term refused by the disk")) << explain(outcome);
    for (const RecoveryRecord& record : outcome.recoveries) EXPECT_FALSE(record.restarted_all);
    others += std::max(0, outcome.processes - 5);
  }
  // A new controller waits for agents hardly longer than they ask one that is gone.
  EXPECT_LE(others, 1) << "only the lost role starts again";
}

// ---- disks

class FullDiskTest : public SimulatedJobTest {};

TEST_F(FullDiskTest, AFailedSaveIsNotAFailedStep) {
  for (const int rank : {0, 3, -1}) {
    const SimulatedOutcome outcome = survives({{.kind = Kind::kFillDisk,
                                                .rank = Rank(rank),
                                                .lasts = absl::Milliseconds(300),
                                                .time = absl::Milliseconds(20)}});
    EXPECT_THAT(outcome.marks, Contains("save failed"));
    EXPECT_THAT(outcome.recoveries, IsEmpty()) << explain(outcome);
    EXPECT_EQ(outcome.processes, 4);
  }
}

TEST_F(FullDiskTest, WithoutCopiesAllGoBackToTheNewestCheckpointThatIsWhole) {
  shape_.model.save_every = 2;
  const SimulatedOutcome outcome = survives({{.kind = Kind::kFillDisk,
                                              .rank = Rank(3),
                                              .lasts = absl::Seconds(1),
                                              .point = "step/forward",
                                              .at_rank = Rank(3),
                                              .passing = 12},
                                             kill(0, "step/forward", 21),
                                             kill(2, "step/forward", 21)});
  EXPECT_TRUE(outcome.recoveries[0].restarted_all) << explain(outcome);
  EXPECT_THAT(outcome.marks, Contains("checkpoint with a failed save skipped"));
  EXPECT_THAT(outcome.marks, Contains("back from disk"));
}

TEST_F(FullDiskTest, TheEndWaitsForTheLastSave) {
  const SimulatedOutcome outcome = survives({{.kind = Kind::kFillDisk,
                                              .rank = Rank(-1),
                                              .lasts = absl::Seconds(2),
                                              .time = absl::Milliseconds(60)}});
  EXPECT_GT(outcome.duration, absl::Seconds(2));
  EXPECT_EQ(outcome.processes, 4) << explain(outcome);
}

TEST_F(SimulatedJobTest, ANodeThatJoinsLateFindsItsPlace) {
  shape_.late = absl::Milliseconds(200);
  for (const int node : {0, 2, 4}) {
    shape_.late_node = Node(node);
    const SimulatedOutcome outcome = run();
    EXPECT_TRUE(outcome.ok) << explain(outcome);
  }
}

}  // namespace
}  // namespace evermoe
