#include "recovery/member/serve/snapshot_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recovery/rank_testing.h"

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr absl::Duration kBeat = absl::Milliseconds(40);

// Rank 1 keeps the copies of rank 0.
class SnapshotCopiesTest : public RankTest {
 protected:
  void run_pair(const Body& owner, const Body& holder) {
    run(2, [&](RankParts& rank) {
      rank.begin_run(1);
      ASSERT_TRUE(rank.enter(plan(1).up_to(verdict_commit(Step(0))).held_by(0, 1)).ok());
      rank.rank() == Rank(0) ? owner(rank) : holder(rank);
    });
  }
  static std::vector<int> operators_of(const RankParts& rank, SlotTime time) {
    std::vector<int> operators;
    for (const Chunk& chunk : rank.memory.store.chunks(Rank(0), time))
      operators.push_back(chunk.header().operator_index);
    return operators;
  }
};

TEST_F(SnapshotCopiesTest, GradientsGoOutOneByOneAsTheyAreReduced) {
  const SlotTime time{Step(0), 1};
  run_pair(
      [&](RankParts& rank) {
        ASSERT_TRUE(rank.copies.begin_gradients(time, rank.window.position()).ok());
        rank.copies.on_reduced(2);
        pause(2 * kBeat);
        rank.copies.on_reduced(0);
        rank.copies.on_reduced(1);
        EXPECT_TRUE(rank.copies.wait_settled().ok());
        EXPECT_TRUE(rank.memory.store.has_slot(Rank(0), time));
        pause(2 * kBeat);
      },
      [&](RankParts& rank) {
        pause(kBeat);
        EXPECT_THAT(operators_of(rank, time), ElementsAre(-1, 2)) << "the others are not there yet";
        pause(3 * kBeat);
        EXPECT_TRUE(rank.memory.store.has_slot(Rank(0), time));
      });
}

// The step is broken off while some of its gradients are on their way.
TEST_F(SnapshotCopiesTest, GradientsThatAreNotReducedAnyMoreAreDropped) {
  const SlotTime time{Step(0), 1};
  run_pair(
      [&](RankParts& rank) {
        ASSERT_TRUE(rank.copies.begin_gradients(time, rank.window.position()).ok());
        rank.copies.on_reduced(1);
        pause(kBeat);
        rank.copies.abandon();
        rank.copies.on_reduced(0);
        EXPECT_THAT(operators_of(rank, time), IsEmpty());
        EXPECT_TRUE(rank.copies.wait_settled().ok()) << "nothing is captured";
        pause(kBeat);
      },
      [&](RankParts& rank) { pause(3 * kBeat); });
}

}  // namespace
}  // namespace evermoe
