// Gradients of steps behind the slots of a window: where they are named, cut and held.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protection/schedule/capture_schedule.h"
#include "protection/snapshots/chunk_testing.h"
#include "protection/snapshots/snapshot_store.h"

namespace evermoe {
namespace {

using testing::ElementsAre;

constexpr Rank kOwner(3);

// Windows of one slot that begin with every third state from 6 on.
class KeptGradientsTest : public testing::Test {
 protected:
  void keep_window(int64_t window) { keep({Step(window), 0}, SnapshotKind::kFull); }
  void keep_gradients(int64_t state) {
    keep(schedule_.gradients_of(Step(state)), SnapshotKind::kGradients);
  }
  void keep(SlotTime time, SnapshotKind kind, int chunks = 1) {
    ASSERT_TRUE(store_
                    .add(filled_chunk({.owner = kOwner,
                                       .window = time.window,
                                       .slot = time.slot,
                                       .slots = 1,
                                       .chunk = 0,
                                       .chunks = chunks,
                                       .operator_index = 0,
                                       .kind = kind,
                                       .size = 8}))
                    .ok());
  }

  const CaptureSchedule schedule_{{Step(6), 1, 3}, {0, 0}};
  SnapshotStore store_{1 << 20};
};

TEST_F(KeptGradientsTest, LieBehindTheSlotsOfTheWindowUnderWay) {
  EXPECT_EQ(schedule_.gradients_of(Step(6)), (SlotTime{Step(6), 1}));
  EXPECT_EQ(schedule_.gradients_of(Step(8)), (SlotTime{Step(6), 3}));
  EXPECT_EQ(schedule_.gradients_of(Step(9)), (SlotTime{Step(9), 1}));
}

TEST_F(KeptGradientsTest, AreCutAfterThePosition) {
  const auto chunks = chunks_of_gradients({{24, 8, 10}, {24, 8, 0}, {24, 8, 4}}, 5, 8);
  std::vector<std::pair<int, int64_t>> sizes;
  for (const ChunkRange& chunk : chunks) {
    EXPECT_EQ(chunk.kind, SnapshotKind::kGradients);
    sizes.emplace_back(chunk.operator_index, chunk.size);
  }
  EXPECT_THAT(sizes,
              ElementsAre(std::pair(-1, 5), std::pair(0, 8), std::pair(0, 2), std::pair(2, 4)));
}

TEST_F(KeptGradientsTest, AreCountedFromTheWindowUpToTheFirstGap) {
  keep_window(6);
  keep_gradients(6);
  keep_gradients(8);
  EXPECT_THAT(store_.held(), ElementsAre(HeldWindow{kOwner, Step(6), 1}));
  keep_gradients(7);
  EXPECT_THAT(store_.held(), ElementsAre(HeldWindow{kOwner, Step(6), 3}));
}

TEST_F(KeptGradientsTest, GoOnInTheNextWindowCompleteOrNot) {
  keep_window(6);
  for (int64_t state = 6; state < 11; ++state) keep_gradients(state);
  EXPECT_THAT(store_.held(), ElementsAre(HeldWindow{kOwner, Step(6), 5}));
  keep_window(9);
  EXPECT_THAT(store_.held(),
              ElementsAre(HeldWindow{kOwner, Step(6), 5}, HeldWindow{kOwner, Step(9), 2}));
  store_.free_before(Step(9));
  EXPECT_THAT(store_.held(), ElementsAre(HeldWindow{kOwner, Step(9), 2}));
}

TEST_F(KeptGradientsTest, WindowsBetweenTheCompleteOneAndACutAreFreed) {
  for (const int64_t window : {6, 9, 12}) keep_window(window);
  store_.free_between(Step(6), Step(12));
  EXPECT_THAT(store_.held(),
              ElementsAre(HeldWindow{kOwner, Step(6), 0}, HeldWindow{kOwner, Step(12), 0}));
  store_.free_between(Step(-1), Step(12));
  EXPECT_THAT(store_.held(), ElementsAre(HeldWindow{kOwner, Step(12), 0}));
}

TEST_F(KeptGradientsTest, AStepOfWhichChunksAreMissingDoesNotCount) {
  keep_window(6);
  keep(schedule_.gradients_of(Step(6)), SnapshotKind::kGradients, /*chunks=*/2);
  EXPECT_THAT(store_.held(), ElementsAre(HeldWindow{kOwner, Step(6), 0}));
}

}  // namespace
}  // namespace evermoe
