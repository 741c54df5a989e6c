// Jobs whose experts move between the lanes of their stages: whatever is lost before, while and
// after they do, a job ends with the bits of an undisturbed one, in which they move at the same
// states.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "sim/simulated_job_testing.h"

namespace evermoe {
namespace {

using testing::Contains;
using testing::IsEmpty;

class MovingExpertsTest : public SimulatedJobTest,
                          public testing::WithParamInterface<StrategyKind> {
 protected:
  MovingExpertsTest() {
    shape_.lanes = {3, 2};
    shape_.nodes = 5;
    shape_.copies = 2;
    shape_.strategy = GetParam();
    if (GetParam() != StrategyKind::kSparse) shape_.window = 1;
    shape_.period = GetParam() == StrategyKind::kGradients ? 5 : 0;
    shape_.model.steps = 20;
    shape_.model.move_experts_every = 3;
    shape_.network.time_max = absl::Minutes(1);
  }
  void lives_through(const std::vector<SimulatedFault>& faults, const std::string& expected) {
    const SimulatedOutcome outcome = run(faults);
    ASSERT_TRUE(outcome.ok) << explain(outcome);
    ASSERT_EQ(outcome.digest, expected) << explain(outcome);
    ASSERT_THAT(outcome.contradictions, IsEmpty()) << explain(outcome);
    ASSERT_THAT(outcome.violations, IsEmpty()) << explain(outcome);
    ASSERT_LE(outcome.processes, 5 + std::ssize(faults)) << "who waits in vain is ended";
    for (const RecoveryRecord& record : outcome.recoveries)
      ASSERT_FALSE(record.restarted_all) << explain(outcome);
  }
};

TEST_P(MovingExpertsTest, TheyDoAndThatShowsInTheBits) {
  const SimulatedOutcome outcome = run();
  ASSERT_TRUE(outcome.ok) << explain(outcome);
  EXPECT_THAT(outcome.marks, Contains("experts moved"));
  shape_.model.move_experts_every = 4;
  EXPECT_NE(run().digest, outcome.digest);
  shape_.model.move_experts_every = 0;
  const SimulatedOutcome still = run();
  EXPECT_NE(still.digest, outcome.digest);
  EXPECT_THAT(still.marks, testing::Not(Contains("experts moved")));
}

TEST_P(MovingExpertsTest, ARoleMayBeLostWhileTheyMove) {
  const std::string expected = run().digest;
  for (const char* const point : {"experts/move", "experts/moved"}) {
    for (int rank = 0; rank < 5; ++rank) {
      for (const int64_t passing : {1, 2, 3})
        ASSERT_NO_FATAL_FAILURE(lives_through({kill(rank, point, passing)}, expected))
            << rank << " " << point << " " << passing;
    }
  }
}

TEST_P(MovingExpertsTest, ARoleMayBeLostAtAnyStep) {
  const std::string expected = run().digest;
  for (const char* const point : {"step/before_verdict", "step/updated"}) {
    for (int rank = 0; rank < 5; ++rank) {
      for (int64_t passing = 2 + rank % 2; passing <= 20; passing += 2)
        ASSERT_NO_FATAL_FAILURE(lives_through({kill(rank, point, passing)}, expected))
            << rank << " " << point << " " << passing;
    }
  }
}

TEST_P(MovingExpertsTest, TwoMayBeLostWhileTheyMove) {
  const std::string expected = run().digest;
  for (int rank = 0; rank < 5; ++rank) {
    for (const int64_t passing : {1, 2})
      ASSERT_NO_FATAL_FAILURE(lives_through(
          {kill(rank, "experts/moved", passing), kill((rank + 2) % 5, "experts/move", passing)},
          expected))
          << rank << " " << passing;
  }
}

// At the states at which they move, and at others.
TEST_P(MovingExpertsTest, LanesMayChangeBesides) {
  shape_.elastic.script = {
      {Step(4), {Rank(2)}}, {Step(6), {Rank(4)}}, {Step(9), {Rank(1), Rank(4)}}, {Step(15), {}}};
  const SimulatedOutcome undisturbed = run();
  ASSERT_TRUE(undisturbed.ok) << explain(undisturbed);
  for (const char* const point : {"experts/move", "lanes/changed", "step/before_verdict"}) {
    for (int rank = 0; rank < 5; ++rank) {
      for (const int64_t passing : {1, 2, 4})
        ASSERT_NO_FATAL_FAILURE(lives_through({kill(rank, point, passing)}, undisturbed.digest))
            << rank << " " << point << " " << passing;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Exact, MovingExpertsTest,
    testing::Values(StrategyKind::kSparse, StrategyKind::kDense, StrategyKind::kGradients,
                    StrategyKind::kPeerMemory),
    [](const testing::TestParamInfo<StrategyKind>& info) {
      return absl::StrReplaceAll(std::string(to_string(info.param)), {{"-", ""}});
    });

}  // namespace
}  // namespace evermoe
