// What a controller does about roles that compute slower than others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/controller/controlled_job_testing.h"

namespace evermoe {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

ControllerOptions that_moves(bool moves, int spares = 1) {
  ControllerOptions options;
  options.nodes = 2;
  options.spares = spares;
  options.steps = Step(1000);
  options.stragglers.moves = moves;
  return options;
}

// 2 stages x 2 lanes on 2 nodes; role 1.0 is slow from step 31 on.
struct SlowJob : ControlledJob {
  explicit SlowJob(const ControllerOptions& options) : ControlledJob(options) {
    begins().commits(1, 30).did();
    worker(2).is_slow(1.2);
  }
};

TEST(Stragglers, PeopleAreTold) {
  SlowJob job(that_moves(false));
  job.commits(31, 58);
  EXPECT_EQ(job.did(), "1.0 is slow on 1");
  EXPECT_THAT(job.said(), HasSubstr("role 1.0 on node 1 is a straggler: it computes 1.20 times as "
                                    "long as others did in the last 20 steps"));
  job.worker(2).is_slow(1).commits(59, 100);
  EXPECT_EQ(job.did(), "1.0 is fast on 1");
}

// One percent of a step, whether commits are heard of when they are made or in bursts.
TEST(Stragglers, NobodyIsToldOfWhatHardlyMakesAStepLonger) {
  for (const int burst : {1, 10}) {
    SCOPED_TRACE(burst);
    ControlledJob job(that_moves(false));
    job.begins().worker(2).is_slow(1.2);
    for (int64_t step = 1; step < 300; step += burst)
      job.wait(burst).commits(step, step + burst - 1, /*seconds_each=*/0);
    EXPECT_THAT(job.said(), Not(HasSubstr("straggler")));
  }
}

TEST(Stragglers, OneMovesToAFreeNode) {
  SlowJob job(that_moves(true));
  job.commits(31, 58);
  EXPECT_EQ(job.did(), "1.0 is slow on 1, keep 1 on 2");
  EXPECT_THAT(job.core().moves().back().cause,
              StartsWith("straggler: it computes 1.20 times as long as others; a move is made"));
  job.node_keeps(2, 0, 1).commits(59, 65).hand_over({2}).wait(0.1);
  job.commits(66, 100);
  EXPECT_EQ(job.core().moves().back().state, MoveRecord::State::kDone);
  EXPECT_THAT(job.did(), HasSubstr("start 1.0 on 2"));
  EXPECT_EQ(job.core().moves().size(), 1u);
}

TEST(Stragglers, OneStaysWhereNoNodeIsFree) {
  SlowJob job(that_moves(true, /*spares=*/0));
  job.commits(31, 120);
  EXPECT_EQ(job.did(), "1.0 is slow on 1");
  EXPECT_THAT(job.said(), HasSubstr("straggler 1.0 stays: no other node has room for role 1.0"));
  EXPECT_TRUE(job.core().moves().empty());
}

TEST(Stragglers, OneStaysWhereAMoveDoesNotPay) {
  ControllerOptions options = that_moves(true);
  options.steps = Step(100);  // over before the move is made
  SlowJob job(options);
  job.commits(31, 80);
  EXPECT_EQ(job.did(), "1.0 is slow on 1");
  EXPECT_THAT(job.said(), HasSubstr("straggler 1.0 stays: a move would not pay: a move is"));
}

TEST(Stragglers, AMoveIsMadeSoonerWhereAStandbyIsWarm) {
  ControllerOptions options = that_moves(true);
  options.steps = Step(100);
  options.standbys = 1;
  options.expected_move.pause = absl::Milliseconds(100);
  SlowJob without(options), with(options);
  without.commits(31, 80);
  EXPECT_TRUE(without.core().moves().empty()) << without.said();
  with.node_keeps(2, 0, 1).commits(31, 80);
  EXPECT_EQ(with.core().moves().size(), 1u) << with.said();
}

TEST(Stragglers, NobodyMovesToANodeThatIsSlow) {
  ControllerOptions options = that_moves(true, 2);
  SlowJob job(options);
  job.worker(3).is_slow(1).commits(31, 58).did();
  job.node_keeps(2, 0, 1).commits(59, 65).hand_over({2}).wait(0.1);
  job.commits(66, 70).did();
  // Node 1 plays one role less now, and would be as good as node 3.
  job.worker(0).is_slow(1.3).commits(71, 100);
  EXPECT_THAT(job.did(), HasSubstr("0.0 is slow on 0"));
  ASSERT_EQ(job.core().moves().size(), 2u);
  EXPECT_NE(job.core().moves().back().to.front(), Node(1));
}

TEST(Stragglers, WhereItIsSlowEverywhereItStays) {
  SlowJob job(that_moves(true, 3));
  int64_t step = 31;
  for (int move = 0; move < 4; ++move) {
    job.worker(2).is_slow(1.2).commits(step, step + 30);
    step += 31;
    if (!job.core().moves().empty() &&
        job.core().moves().back().state == MoveRecord::State::kDone && move >= 2)
      continue;
    const Node to = job.core().moves().back().to.front();
    job.node_keeps(to.value, 0, 1).commits(step, step + 5).hand_over({2}).wait(0.1);
    job.commits(step + 6, step + 6);
    step += 7;
  }
  EXPECT_EQ(job.core().moves().size(), 2u);
}

}  // namespace
}  // namespace evermoe
