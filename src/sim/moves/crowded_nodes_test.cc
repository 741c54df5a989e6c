// Machines that come back to a job without spares, in whole jobs: what is crowded elsewhere moves
// to them while the job trains, and nobody goes back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/simulated_job_testing.h"

namespace evermoe {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

using Kind = SimulatedFault::Kind;

// Two stages of two lanes on two nodes, of which one is lost and comes back.
class SimulatedRelief : public SimulatedJobTest {
 protected:
  SimulatedRelief() {
    shape_.nodes = 2;
    shape_.spares = 0;
    shape_.model.steps = 100;
    shape_.computing = absl::Milliseconds(4);
  }
  SimulatedOutcome loses_for_a_while(int node, std::vector<SimulatedFault> others = {}) {
    others.push_back({.kind = Kind::kKillNode,
                      .node = Node(node),
                      .lasts = absl::Milliseconds(300),
                      .time = absl::Milliseconds(120)});
    return survives(std::move(others));
  }
  static SimulatedFault when_roles_move(SimulatedFault fault, const char* point) {
    fault.point = point;
    fault.passing = 1;
    return fault;
  }
};

TEST_F(SimulatedRelief, RolesMoveBackToANodeThatComesBack) {
  const SimulatedOutcome outcome = loses_for_a_while(1);
  EXPECT_THAT(outcome.marks, Contains("roles left a crowded node")) << explain(outcome);
  EXPECT_THAT(outcome.story, Contains(HasSubstr("to node 1: node 1 has room"))) << explain(outcome);
  EXPECT_THAT(outcome.recoveries, SizeIs(1)) << "of the loss" << explain(outcome);
}

TEST_F(SimulatedRelief, WithEveryStrategyThatKeepsCopies) {
  for (const StrategyKind strategy :
       {StrategyKind::kDense, StrategyKind::kGradients, StrategyKind::kPeerMemory}) {
    shape_.strategy = strategy;
    shape_.window = 1;
    shape_.period = strategy == StrategyKind::kGradients ? 5 : 0;
    const SimulatedOutcome outcome = loses_for_a_while(1);
    EXPECT_THAT(outcome.marks, Contains("roles left a crowded node")) << explain(outcome);
  }
}

TEST_F(SimulatedRelief, WhateverIsLostMeanwhile) {
  for (const char* const point : {"move/copying", "move/hand_over", "move/handed_over"}) {
    for (int rank = 0; rank < 4; ++rank) {
      loses_for_a_while(1,
                        {when_roles_move({.kind = Kind::kKillWorker, .rank = Rank(rank)}, point)});
    }
    loses_for_a_while(1, {when_roles_move({.kind = Kind::kKillController}, point)});
    for (const int node : {0, 1})
      loses_for_a_while(1, {when_roles_move({.kind = Kind::kKillNode, .node = Node(node)}, point)});
  }
}

// The first lane of a stage never rests.
TEST_F(SimulatedRelief, InAnElasticJobWhereNobodyRests) {
  shape_.lanes = {1, 1};
  shape_.elastic.is_enabled = true;
  const SimulatedOutcome outcome = loses_for_a_while(1);
  EXPECT_THAT(outcome.marks, Contains("roles left a crowded node")) << explain(outcome);
}

TEST_F(SimulatedRelief, NotWhereItWouldNotPay) {
  shape_.expected_move.pause = absl::Seconds(10);
  EXPECT_THAT(loses_for_a_while(1).story, Not(Contains(HasSubstr("has room"))));
}

}  // namespace
}  // namespace evermoe
