#include "recovery/member/serve/snapshot_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/cleanup/cleanup.h"
#include "base/fault_point.h"
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

// The step waits for them in its end.
TEST_F(SnapshotCopiesTest, GradientsDoNotKeepToThePaceOfSnapshots) {
  trainer_.is_on_device = false;
  captured_per_second_ = 100;  // a chunk of a few bytes in many beats
  const SlotTime snapshot{Step(0), 0}, gradients{Step(0), 1};
  run_pair(
      [&](RankParts& rank) {
        ASSERT_TRUE(rank.copies.begin_gradients(gradients, rank.window.position()).ok());
        for (int op = 0; op < 3; ++op) rank.copies.on_reduced(op);
        pause(2 * kBeat);
        EXPECT_TRUE(rank.copies.wait_settled().ok());
        ASSERT_TRUE(rank.copies.capture(snapshot, rank.window.position()).ok());
        pause(2 * kBeat);
        EXPECT_FALSE(rank.memory.store.has_slot(Rank(0), snapshot));
        EXPECT_TRUE(rank.copies.wait_settled().ok());
        pause(kBeat);
      },
      [&](RankParts& rank) {
        pause(kBeat);
        EXPECT_TRUE(rank.memory.store.has_slot(Rank(0), gradients));
        pause(60 * kBeat);
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

// All chunks are asked for at once, and come one after the other.
TEST_F(SnapshotCopiesTest, TheOptimizerWaitsForWhatIsStillOnItsWay) {
  const SlotTime time{Step(0), 0};
  trainer_.operators = 6;
  run_pair(
      [&](RankParts& rank) {
        rank.trainer.masters.assign(6, 7);
        rank.trainer.before_copy = [&] { pause(absl::Milliseconds(1)); };
        ASSERT_TRUE(rank.copies.capture(time, rank.window.position()).ok());
        for (int op = 0; op < 6; ++op) {
          ASSERT_TRUE(rank.copies.wait_read(op).ok());
          rank.trainer.masters[static_cast<size_t>(op)] = -1;
        }
        EXPECT_TRUE(rank.copies.wait_settled().ok());
        for (const Chunk& chunk : rank.memory.store.chunks(Rank(0), time)) {
          if (chunk.header().operator_index < 0) continue;
          EXPECT_EQ(*reinterpret_cast<const int64_t*>(chunk.body().data()), 7)
              << "operator " << chunk.header().operator_index;
        }
        pause(2 * kBeat);
      },
      [&](RankParts& rank) {
        pause(kBeat);
        EXPECT_TRUE(rank.memory.store.has_slot(Rank(0), time));
      });
}

// It has all been read, but not all of it has been added.
TEST_F(SnapshotCopiesTest, WhatIsDroppedBeforeItIsAddedHasNotBeenCaptured) {
  const SlotTime time{Step(0), 0};
  trainer_.operators = 6;
  arm_fault_points([this](const std::string& point, int64_t) {
    if (point == "capture/copied") pause(absl::Milliseconds(1));
  });
  const absl::Cleanup disarm = [] { arm_fault_points({}); };
  run_pair(
      [&](RankParts& rank) {
        ASSERT_TRUE(rank.copies.capture(time, rank.window.position()).ok());
        ASSERT_TRUE(rank.copies.wait_read(5).ok());
        rank.copies.abandon();
        EXPECT_FALSE(rank.memory.store.has_slot(Rank(0), time));
        EXPECT_TRUE(rank.copies.wait_settled().ok()) << "nothing is captured";
        pause(kBeat);
      },
      [&](RankParts& rank) { pause(3 * kBeat); });
}

}  // namespace
}  // namespace evermoe
