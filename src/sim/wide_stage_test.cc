// Stages with more lanes than a job may have losses in a row: one worker that hangs there is one
// loss, and so is a node with all its workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/simulated_job_testing.h"

namespace evermoe {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

class WideStageTest : public SimulatedJobTest {
 protected:
  static constexpr int kLanes = 64;

  WideStageTest() {
    shape_.model.steps = 6;
    shape_.model.micro_batches = kLanes;
    shape_.model.evaluate_every = shape_.model.save_every = 0;
    EXPECT_GT(kLanes, ControllerOptions().losses_max);
  }
};

TEST_F(WideStageTest, OfLanesThatWaitForOneThatHangsOnlyThatOneIsLost) {
  shape_.lanes = {kLanes};
  shape_.nodes = 16;
  const SimulatedOutcome outcome = survives({{.kind = SimulatedFault::Kind::kHang,
                                              .rank = Rank(37),
                                              .point = "step/forward",
                                              .at_rank = Rank(37),
                                              .passing = 3}});
  ASSERT_THAT(outcome.recoveries, SizeIs(1)) << explain(outcome);
  EXPECT_THAT(outcome.recoveries[0].roles, ElementsAre("0.37"));
  EXPECT_THAT(outcome.recoveries[0].causes,
              ElementsAre(AllOf(HasSubstr("0.37"), HasSubstr("does not move"))));
  EXPECT_FALSE(outcome.recoveries[0].restarted_all) << explain(outcome);
  EXPECT_EQ(outcome.processes, kLanes + 1) << "the others keep their processes";
}

TEST_F(WideStageTest, ANodeWithAllLanesOfAStageIsOneLoss) {
  shape_.lanes = {kLanes, kLanes};
  shape_.nodes = 2;
  const SimulatedOutcome outcome = survives({{.kind = SimulatedFault::Kind::kKillNode,
                                              .node = Node(0),
                                              .point = "step/forward",
                                              .at_rank = Rank(37),
                                              .passing = 3}});
  ASSERT_THAT(outcome.recoveries, SizeIs(1)) << explain(outcome);
  EXPECT_THAT(outcome.recoveries[0].roles, AllOf(SizeIs(kLanes), Each(StartsWith("0."))));
  EXPECT_FALSE(outcome.recoveries[0].restarted_all) << explain(outcome);
  EXPECT_EQ(outcome.processes, 3 * kLanes) << "the other stage keeps its processes";
}

}  // namespace
}  // namespace evermoe
