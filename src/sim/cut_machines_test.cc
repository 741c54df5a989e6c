// Machines whose agents do not reach each other, while the controller reaches all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/simulated_job_testing.h"

namespace evermoe {
namespace {

using Kind = SimulatedFault::Kind;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class CutMachinesTest : public SimulatedJobTest {
 protected:
  CutMachinesTest() {
    shape_.asks_partners = true;
    shape_.control.one_call_fails_in = 0;
  }
  static SimulatedFault isolate(int node, double at, double lasts) {
    return {.kind = Kind::kIsolateNode,
            .node = Node(node),
            .lasts = absl::Milliseconds(lasts),
            .time = absl::Milliseconds(at)};
  }
  static SimulatedFault cut(int node, int peer, double at, double lasts) {
    SimulatedFault fault = isolate(node, at, lasts);
    fault.kind = Kind::kCutNodes;
    fault.peer = Node(peer);
    return fault;
  }
  static SimulatedFault kill_node(int node, double at) {
    SimulatedFault fault = isolate(node, at, 0);
    fault.kind = Kind::kKillNode;
    return fault;
  }
};

TEST_F(CutMachinesTest, AJobOnWholeLinesIsNotHeldUp) {
  const SimulatedOutcome outcome = survives({});
  EXPECT_THAT(outcome.marks, Not(Contains("machine left out for its network")));
  EXPECT_THAT(outcome.recoveries, IsEmpty());
}

TEST_F(CutMachinesTest, AtTheBeginningASpareTakesThePlaceOfOneThatIsCutOff) {
  shape_.model.steps = 60;
  const SimulatedOutcome outcome = survives({isolate(1, 0, 400)});
  EXPECT_THAT(outcome.story, Contains(HasSubstr("node 1 is left out: its machine is not fit to "
                                                "play a role: network: 3 of 3 machines")));
  EXPECT_THAT(outcome.marks, Contains("spare takes over")) << explain(outcome);
  EXPECT_THAT(outcome.recoveries, IsEmpty());
}

TEST_F(CutMachinesTest, ItIsFitAgainAndTakesOverFromTheNextOne) {
  shape_.model.steps = 200;
  const SimulatedOutcome outcome = survives({isolate(1, 0, 400), kill_node(2, 1500)});
  EXPECT_THAT(outcome.story, Contains(HasSubstr("node 1 is fit again"))) << explain(outcome);
  EXPECT_EQ(outcome.recoveries.size(), 1u) << explain(outcome);
}

TEST_F(CutMachinesTest, WithoutASpareTheJobWaitsForItsLine) {
  shape_.spares = 0;
  const SimulatedOutcome outcome = survives({isolate(1, 0, 400)});
  EXPECT_THAT(outcome.story, Contains(HasSubstr("3 of the 4 machines that the job needs are there "
                                                "and fit")));
  EXPECT_THAT(outcome.marks, Contains("machine fit again")) << explain(outcome);
}

TEST_F(CutMachinesTest, TwoThatDoNotReachEachOtherAreNamedAndPlayTheirRoles) {
  const SimulatedOutcome outcome = survives({cut(1, 2, 0, 2500)});
  EXPECT_THAT(outcome.story, Contains(HasSubstr("node 1 and node 2 do not reach each other")))
      << explain(outcome);
  EXPECT_THAT(outcome.marks, Not(Contains("machine left out for its network")));
  EXPECT_THAT(outcome.recoveries, IsEmpty());
}

TEST_F(CutMachinesTest, OfTwoMachinesNeitherIsLeftOut) {
  shape_.nodes = 2;
  shape_.spares = 0;
  const SimulatedOutcome outcome = survives({cut(0, 1, 0, 2500)});
  EXPECT_THAT(outcome.marks, Not(Contains("machine left out for its network")));
}

// Long enough for the rule that nobody is left out for ever (control_plane.h).
TEST_F(CutMachinesTest, OneThatPlaysRolesGoesOnPlayingThem) {
  shape_.model.steps = 400;
  const SimulatedOutcome outcome = survives({isolate(1, 300, 900)});
  EXPECT_THAT(outcome.marks, Contains("machine left out for its network")) << explain(outcome);
  EXPECT_THAT(outcome.marks, Contains("machine fit again"));
  EXPECT_THAT(outcome.recoveries, IsEmpty());
}

TEST_F(CutMachinesTest, ASpareThatIsCutOffIsPassedOver) {
  shape_.model.steps = 200;
  shape_.spares = 2;
  const SimulatedOutcome outcome = survives({isolate(4, 0, 60'000), kill_node(1, 800)});
  EXPECT_THAT(outcome.story, Contains(HasSubstr("node 4 is left out"))) << explain(outcome);
  EXPECT_THAT(outcome.marks, Contains("spare takes over"));
}

// Whoever hosts: the lines to its controller are those between the machines.
TEST_F(CutMachinesTest, AnyNodeMayHostWhileOneIsCutOff) {
  shape_.has_store = true;
  shape_.copies = 2;
  shape_.model.steps = 150;
  for (int node = 0; node < 3; ++node) survives({isolate(node, 200, 900)});
}

}  // namespace
}  // namespace evermoe
