// Whole states, of windows with one slot and of roles that are handed over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protection/snapshots/chunk_testing.h"
#include "protection/snapshots/snapshot_store.h"

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kBytes = 100;

// The only chunk of a slot.
Chunk chunk_of(int owner, int64_t window, int slot, int slots) {
  return filled_chunk(
      {.owner = Rank(owner),
       .window = Step(window),
       .slot = slot,
       .slots = slots,
       .chunk = 0,
       .chunks = 1,
       .operator_index = 0,
       .kind = slot == gradients_after_whole(0) ? SnapshotKind::kGradients : SnapshotKind::kFull,
       .size = kBytes});
}

TEST(WholeStates, HaveAllOperatorsInFull) {
  const auto chunks = chunks_of_whole_state({{10, 2, 0}, {25, 5, 0}}, 3, 20);
  ASSERT_EQ(chunks.size(), 4u);
  EXPECT_EQ(chunks[0].operator_index, -1);
  EXPECT_EQ(chunks[1].size, 10);
  EXPECT_EQ(chunks[2].size, 20);
  EXPECT_EQ(chunks[3].size, 5);
  for (const ChunkRange& chunk : chunks) EXPECT_EQ(chunk.kind, SnapshotKind::kFull);
}

TEST(WholeStates, OfWindowsWithOneSlotAreTheWindowsThemselves) {
  SnapshotStore store(1 << 20);
  ASSERT_TRUE(store.add(chunk_of(1, 8, 0, 1)).ok());
  EXPECT_THAT(store.whole_states(), ElementsAre(WholeState{Rank(1), Step(8)}));
  EXPECT_FALSE(store.handed_state(Rank(1), Step(8)).has_value());
}

// What a role gives away that stops one step after the state at 8.
void hand_over(SnapshotStore& store, const std::vector<int>& slots) {
  for (const int slot : slots) ASSERT_TRUE(store.add(chunk_of(1, 8, slot, 2)).ok());
}

TEST(WholeStates, AreHandedOverWithTheGradientsOfTheStepsSince) {
  SnapshotStore store(1 << 20);
  hand_over(store, {kWholeState, gradients_after_whole(0)});
  EXPECT_THAT(store.whole_states(), IsEmpty()) << "nobody knows whether it has stopped there";
  hand_over(store, {stopped_after_whole(1)});
  EXPECT_THAT(store.whole_states(), ElementsAre(WholeState{Rank(1), Step(9)}));
  EXPECT_EQ(store.handed_state(Rank(1), Step(9)), (HandedState{Step(8), 1}));
  EXPECT_FALSE(store.handed_state(Rank(1), Step(8)).has_value());
  EXPECT_THAT(store.held(), IsEmpty()) << "that is no window";
}

TEST(WholeStates, AreNotHandedOverWhileAnythingIsMissing) {
  SnapshotStore without_gradients(1 << 20), without_state(1 << 20);
  hand_over(without_gradients, {kWholeState, stopped_after_whole(1)});
  EXPECT_THAT(without_gradients.whole_states(), IsEmpty());
  hand_over(without_state, {gradients_after_whole(0), stopped_after_whole(1)});
  EXPECT_THAT(without_state.whole_states(), IsEmpty());
}

TEST(WholeStates, GoWithoutTheWindowsBesideThem) {
  SnapshotStore store(1 << 20);
  hand_over(store, {0, 1, kWholeState, stopped_after_whole(0)});
  EXPECT_THAT(store.held_slots(Rank(1)),
              ElementsAre(HeldSlot{{Step(8), 0}, 2}, HeldSlot{{Step(8), 1}, 2}));
  store.drop_handed(Rank(1));
  EXPECT_THAT(store.whole_states(), IsEmpty());
  EXPECT_THAT(store.held(), ElementsAre(HeldWindow{Rank(1), Step(8), 0}));
}

TEST(WholeStates, AJoinerKeepsTheNewestWindows) {
  SnapshotStore store(1 << 20);
  for (const int window : {2, 4, 6, 8}) ASSERT_TRUE(store.add(chunk_of(1, window, 0, 2)).ok());
  hand_over(store, {kWholeState});
  ASSERT_TRUE(store.add(chunk_of(1, 9, kWholeState, 2)).ok());
  store.keep_newest(Rank(1), 3);
  EXPECT_THAT(store.windows(Rank(1)), ElementsAre(Step(4), Step(6), Step(8), Step(9)))
      << "the state at 9 begins no window";
  EXPECT_EQ(store.take_all().size(), 5u);
  EXPECT_EQ(store.bytes(), 0);
}

}  // namespace
}  // namespace evermoe
