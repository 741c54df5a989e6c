// Whole states beside the slots of a window: where they are named, cut and held.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "protection/snapshots/snapshot_store.h"

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kBytes = 100;

// The only chunk of a slot.
Chunk chunk_of(int owner, int64_t window, int slot, int slots) {
  ChunkHeader header{.owner = Rank(owner),
                     .window = Step(window),
                     .slot = slot,
                     .slots = slots,
                     .chunk = 0,
                     .chunks = 1,
                     .operator_index = 0,
                     .kind = SnapshotKind::kFull,
                     .size = kBytes};
  Chunk chunk = Chunk::make(header);
  std::memset(chunk.writable_body().data(), 7, kBytes);
  chunk.seal();
  return chunk;
}

TEST(WholeStates, AreTheOnlySlotOfAWindowOrOneOfTheirOwn) {
  const CaptureSchedule one({Step(0), 1, 4}, {0, 0});
  EXPECT_EQ(one.whole_of(Step(8)), (SlotTime{Step(8), 0}));
  const CaptureSchedule two({Step(0), 2, 4}, {0, 1});
  EXPECT_EQ(two.whole_of(Step(8)), (SlotTime{Step(8), kWholeState}));
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

TEST(WholeStates, AreHeldBesideTheWindow) {
  SnapshotStore store(1 << 20);
  ASSERT_TRUE(store.add(chunk_of(1, 8, kWholeState, 2)).ok());
  EXPECT_THAT(store.whole_states(), ElementsAre(WholeState{Rank(1), Step(8)}));
  EXPECT_THAT(store.held(), IsEmpty()) << "no slot of the window has come";
  ASSERT_TRUE(store.add(chunk_of(1, 8, 0, 2)).ok());
  ASSERT_TRUE(store.add(chunk_of(1, 8, 1, 2)).ok());
  EXPECT_THAT(store.held(), ElementsAre(HeldWindow{Rank(1), Step(8), 0}));
  EXPECT_EQ(store.slot_bytes(Rank(1), {Step(8), kWholeState}), kBytes);
}

TEST(WholeStates, OfWindowsWithOneSlotAreTheWindowsThemselves) {
  SnapshotStore store(1 << 20);
  ASSERT_TRUE(store.add(chunk_of(1, 8, 0, 1)).ok());
  EXPECT_THAT(store.whole_states(), ElementsAre(WholeState{Rank(1), Step(8)}));
  store.free_whole_before(Step(9));
  EXPECT_THAT(store.whole_states(), ElementsAre(WholeState{Rank(1), Step(8)})) << "it is a window";
}

TEST(WholeStates, GoWhenTheJobIsBeyondThem) {
  SnapshotStore store(1 << 20);
  for (const int owner : {1, 2}) {
    ASSERT_TRUE(store.add(chunk_of(owner, 8, 0, 2)).ok());
    ASSERT_TRUE(store.add(chunk_of(owner, 8, kWholeState, 2)).ok());
  }
  store.free_whole_before(Step(8));
  EXPECT_EQ(store.whole_states().size(), 2u);
  store.drop_whole(Rank(2));
  EXPECT_THAT(store.whole_states(), ElementsAre(WholeState{Rank(1), Step(8)}));
  const int64_t before = store.bytes();
  store.free_whole_before(Step(9));
  EXPECT_THAT(store.whole_states(), IsEmpty());
  EXPECT_LT(store.bytes(), before);
  EXPECT_TRUE(store.has_slot(Rank(1), {Step(8), 0}));
}

}  // namespace
}  // namespace evermoe
