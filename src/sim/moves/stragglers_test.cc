// Roles that compute slower than others, in whole jobs: who is named, and that moving one costs no
// bit and no step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/simulated_job_testing.h"

namespace evermoe {
namespace {

using testing::IsEmpty;

using Kind = SimulatedFault::Kind;

// Each role on a node of its own, and one node is spare. Steps of 4 ms and more.
class SimulatedStragglers : public SimulatedJobTest {
 protected:
  SimulatedStragglers() {
    shape_.model.steps = 100;
    shape_.computing = absl::Milliseconds(4);
    shape_.stragglers = {.for_steps = 8, .moves = true, .look = absl::Milliseconds(20)};
    shape_.expected_move = {.preparation = absl::Milliseconds(50), .pause = absl::Milliseconds(50)};
  }
  static SimulatedFault slow_down(int rank, double factor = 3) {
    SimulatedFault fault{
        .kind = Kind::kSlowWorker, .rank = Rank(rank), .time = absl::Milliseconds(300)};
    fault.factor = factor;
    return fault;
  }
  static std::vector<int> named(const SimulatedOutcome& outcome) {
    std::vector<int> ranks;
    for (const StragglerFound& found : outcome.stragglers) {
      if (!found.is_over) ranks.push_back(found.rank.value);
    }
    return ranks;
  }
};

TEST_F(SimulatedStragglers, OneIsNamedAndMovesWithoutAStepAgain) {
  for (const std::vector<int>& lanes : {std::vector{2, 2}, {1, 1, 1}, {4}}) {
    shape_.lanes = lanes;
    for (int rank = 0; rank < 3; ++rank) {
      const SimulatedOutcome outcome = survives({slow_down(rank)});
      EXPECT_EQ(named(outcome), std::vector{rank}) << explain(outcome);
      ASSERT_EQ(outcome.moves.size(), 1u) << explain(outcome);
      EXPECT_EQ(outcome.moves[0].state, MoveRecord::State::kDone) << explain(outcome);
      EXPECT_THAT(outcome.recoveries, IsEmpty()) << explain(outcome);
      for (const MemberWork& work : outcome.work) EXPECT_EQ(work.steps_recomputed, 0);
    }
  }
}

TEST_F(SimulatedStragglers, OneByAFifthIsNamedWithin30Steps) {
  shape_.stragglers = {.look = absl::Milliseconds(20)};
  for (int rank = 0; rank < 4; ++rank) {
    const SimulatedOutcome outcome = survives({slow_down(rank, 1.25)});
    EXPECT_EQ(named(outcome), std::vector{rank}) << explain(outcome);
  }
}

TEST_F(SimulatedStragglers, ASlowNetworkNamesNobody) {
  shape_.network.bytes_per_second = 3e4;
  EXPECT_THAT(survives({}).stragglers, IsEmpty());
}

TEST_F(SimulatedStragglers, TheBitsAreTheSameWhoeverDiesMeanwhile) {
  shape_.copies = 2;
  for (const char* const point : {"move/hand_over", "move/handed_over", "recovery/restored"}) {
    for (int rank = 0; rank < 4; ++rank) {
      SimulatedFault death{.kind = Kind::kKillWorker, .rank = Rank(rank)};
      death.point = point;
      death.passing = 1;
      const SimulatedOutcome outcome = survives({slow_down(1), death});
      for (const RecoveryRecord& recovery : outcome.recoveries)
        EXPECT_FALSE(recovery.restarted_all) << explain(outcome);
    }
  }
}

}  // namespace
}  // namespace evermoe
