// Machines that are taken away, in whole jobs: their roles move, or the job is drained, with the
// bits of one of so many steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/simulated_job_testing.h"

namespace evermoe {
namespace {

using testing::Contains;
using testing::IsEmpty;

using Kind = SimulatedFault::Kind;

// Stages of two lanes on two nodes. Steps of 4 ms and more.
class SimulatedLeaving : public SimulatedJobTest {
 protected:
  SimulatedLeaving() {
    shape_.lanes = {2, 2};
    shape_.nodes = 2;
    shape_.spares = 0;
    shape_.model.steps = 60;
    shape_.computing = absl::Milliseconds(4);
  }
  static SimulatedFault at(int milliseconds, Kind kind, int target) {
    SimulatedFault fault{.kind = kind, .rank = Rank(target)};
    fault.node = Node(target);
    fault.time = absl::Milliseconds(milliseconds);
    return fault;
  }
  SimulatedOutcome is_drained(std::vector<SimulatedFault> faults) {
    const SimulatedOutcome outcome = run(std::move(faults));
    EXPECT_TRUE(outcome.ok) << explain(outcome);
    EXPECT_THAT(outcome.violations, IsEmpty()) << explain(outcome);
    EXPECT_GT(outcome.steps, 0) << explain(outcome);
    EXPECT_LT(outcome.steps, shape_.model.steps) << explain(outcome);
    EXPECT_EQ(outcome.samples, outcome.steps * shape_.model.micro_batches);
    SimulatedShape shorter = shape_;
    shorter.model.steps = outcome.steps;
    shorter.elastic = {};
    shorter.elastic.script = outcome.membership;
    EXPECT_EQ(outcome.digest, SimulatedJob(shorter, {}).run().digest) << explain(outcome);
    return outcome;
  }
};

TEST_F(SimulatedLeaving, ItsRolesMoveAndItGoes) {
  shape_.spares = 1;
  const SimulatedOutcome outcome = survives({at(200, Kind::kLeaveNode, 1)});
  EXPECT_THAT(outcome.marks, Contains("node left the job"));
  EXPECT_THAT(outcome.marks, Contains("move of roles done"));
  EXPECT_THAT(outcome.recoveries, IsEmpty()) << explain(outcome);
}

TEST_F(SimulatedLeaving, WithoutRoomTheJobIsDrained) { is_drained({at(200, Kind::kLeaveNode, 1)}); }

TEST_F(SimulatedLeaving, TheLastNodePlaysWhatIsLostUntilTheJobIsDrained) {
  for (int later = 0; later < 60; later += 10) {
    is_drained({at(200, Kind::kKillNode, 0), at(200, Kind::kLeaveNode, 1),
                at(230 + later, Kind::kKillWorker, 2)});
  }
}

TEST_F(SimulatedLeaving, AProcessIsLostWhileTheJobIsDrained) {
  for (int later = 0; later < 60; later += 5) {
    is_drained({at(200, Kind::kLeaveNode, 0), at(200, Kind::kLeaveNode, 1),
                at(220 + later, Kind::kKillWorker, later / 5 % 4)});
  }
}

// It has no state that would say that the job is drained.
TEST_F(SimulatedLeaving, ARoleThatRestsIsLostWhileTheJobIsDrained) {
  shape_.elastic.is_enabled = true;
  shape_.nodes = 4;
  for (int later = 0; later < 60; later += 5) {
    const SimulatedOutcome outcome = is_drained(
        {at(200, Kind::kKillNode, 3), at(400, Kind::kLeaveNode, 0), at(400, Kind::kLeaveNode, 1),
         at(400, Kind::kLeaveNode, 2), at(420 + later, Kind::kKillWorker, 3)});
    EXPECT_FALSE(outcome.membership.empty()) << "nobody rested";
  }
}

}  // namespace
}  // namespace evermoe
