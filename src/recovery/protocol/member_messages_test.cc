#include "recovery/protocol/member_messages.h"

#include <gtest/gtest.h>

#include "protection/snapshots/chunk_testing.h"
#include "recovery/protocol/findings.h"

namespace evermoe {
namespace {

TEST(MemberMessagesTest, ComeBackAsTheyWere) {
  const auto slot = decode_slot_message(encode(SlotMessage{Rank(3), {Step(40), 2}}));
  ASSERT_TRUE(slot.ok());
  EXPECT_EQ(slot->owner, Rank(3));
  EXPECT_EQ(slot->time, (SlotTime{Step(40), 2}));
  const auto wanted = decode_wanted_slot(encode(WantedSlot{*slot, {0, 2, 7}}));
  ASSERT_TRUE(wanted.ok());
  EXPECT_EQ(wanted->slot.time, slot->time);
  EXPECT_EQ(wanted->have, (std::vector<int32_t>{0, 2, 7}));
  EXPECT_EQ(wanted->share, ChunkShare());
  EXPECT_FALSE(decode_wanted_slot(encode(WantedSlot{*slot, {2, 2}})).ok());
  const ChunkShare share{1, 3};
  EXPECT_EQ(decode_wanted_slot(encode(WantedSlot{*slot, {}, share}))->share, share);
  for (const ChunkShare bad : {ChunkShare{3, 3}, ChunkShare{-1, 3}, ChunkShare{0, 0}})
    EXPECT_FALSE(decode_wanted_slot(encode(WantedSlot{*slot, {}, bad})).ok());
  EXPECT_EQ(*decode_commit_message(encode(Commit(77))), Commit(77));
  const PeerAddress address{"seat1@somewhere", View(8)};
  EXPECT_EQ(*decode_peer_address(encode(address)), address);
  const Neighbours neighbours = {{Rank(2), {address, {}, true, false}},
                                 {Rank(5), {{"", View(1)}, {"next", View(9)}, false, true}}};
  EXPECT_EQ(*decode_neighbours(encode(neighbours)), neighbours);
  const Records records = {{Commit(4), {std::byte{1}, std::byte{2}}}, {Commit(5), {}}};
  EXPECT_EQ(*decode_records_message(encode(records)), records);
  const BoundaryName name{Commit(9), BoundaryDirection::kGradient, MicroBatch(3)};
  const std::vector<std::byte> bytes(5, std::byte{7});
  const MessageBytes message = encode(NamedBoundary{name, bytes});
  const auto boundary = decode_named_boundary(message);
  ASSERT_TRUE(boundary.ok());
  EXPECT_EQ(boundary->name, name);
  EXPECT_TRUE(
      std::equal(bytes.begin(), bytes.end(), boundary->bytes.begin(), boundary->bytes.end()));
  const MessageBytes audit = encode_audit(name, {5, 6});
  EXPECT_EQ(*decode_audited(*decode_named_boundary(audit)), (Fingerprint{5, 6}));
}

TEST(RecordTest, ComesBackAsItWas) {
  const Record record{
      {{1.5, -2}, {3, -4}}, Step(14), Step(12), {Step(12), 4, 6}, {View(9), {7, 8}}};
  EXPECT_EQ(*decode_record(encode(record)), record);
}

TEST(RecordTest, RulesChangeOnlyWhereAWindowBegins) {
  const WindowRule rule{Step(10), 4, 4};
  EXPECT_EQ(next_rule(rule, Step(13), 2), rule);
  EXPECT_EQ(next_rule(rule, Step(14), 0), rule);
  EXPECT_EQ(next_rule(rule, Step(14), 2), (WindowRule{Step(14), 2, 2}));
  EXPECT_EQ(next_rule({Step(10), 1, 5}, Step(15), 3), (WindowRule{Step(15), 3, 5}))
      << "the period stays";
}

TEST(RecordTest, WhereLanesChangeAWindowBegins) {
  EXPECT_EQ(rule_after_change({Step(10), 4, 6}, Step(13), 0), (WindowRule{Step(13), 4, 6}));
  EXPECT_EQ(rule_after_change({Step(10), 4, 4}, Step(14), 2), (WindowRule{Step(14), 2, 2}));
  EXPECT_EQ(rule_after_change({Step(10), 1, 5}, Step(12), 7), (WindowRule{Step(12), 7, 7}));
}

// Every decoder takes any bytes without harm; what it accepts encodes to the same again.
TEST(MemberMessagesTest, DecodersSurviveAnything) {
  uint64_t state = 1;
  const auto draw = [&] {
    return state = state * 6364136223846793005ULL + 1442695040888963407ULL, state >> 33;
  };
  const Chunk chunk = filled_chunk({.owner = Rank(1),
                                    .window = Step(8),
                                    .slot = 1,
                                    .slots = 2,
                                    .chunk = 0,
                                    .chunks = 1,
                                    .operator_index = 0,
                                    .size = 40});
  const std::vector<MessageBytes> seeds = {
      encode(SlotMessage{Rank(3), {Step(40), 2}}),
      encode(WantedSlot{{Rank(3), {Step(40), 2}}, {0, 1, 5}}),
      encode(PeerAddress{"seat1@somewhere", View(8)}),
      encode(Neighbours{{Rank(2), {{"a", View(8)}, {}, true, false}},
                        {Rank(5), {{"bc", View(1)}, {"d", View(9)}, false, true}}}),
      encode(Commit(7)),
      encode(Records{{Commit(4), {std::byte{1}}}}),
      encode_audit({Commit(9), BoundaryDirection::kGradient, MicroBatch(3)}, {5, 6}),
      encode(Record{{{1.5}, {2}}, Step(1), {}}),
      MessageBytes(chunk.block().begin(), chunk.block().end())};
  for (int trial = 0; trial < 20000; ++trial) {
    MessageBytes bytes = seeds[draw() % seeds.size()];
    for (uint64_t flips = draw() % 4; flips > 0 && !bytes.empty(); --flips)
      bytes[draw() % bytes.size()] ^= std::byte(1 << draw() % 8);
    if (draw() % 3 == 0) bytes.resize(draw() % 160);
    if (const auto slot = decode_slot_message(bytes); slot.ok()) {
      EXPECT_EQ(encode(*slot), bytes);
    }
    if (const auto wanted = decode_wanted_slot(bytes); wanted.ok()) {
      EXPECT_EQ(encode(*wanted), bytes);
    }
    if (const auto address = decode_peer_address(bytes); address.ok()) {
      EXPECT_EQ(encode(*address), bytes);
    }
    if (const auto neighbours = decode_neighbours(bytes); neighbours.ok()) {
      EXPECT_EQ(encode(*neighbours), bytes);
    }
    if (const auto commit = decode_commit_message(bytes); commit.ok()) {
      EXPECT_EQ(encode(*commit), bytes);
    }
    if (const auto records = decode_records_message(bytes); records.ok()) {
      EXPECT_EQ(encode(*records), bytes);
    }
    if (const auto boundary = decode_named_boundary(bytes); boundary.ok()) {
      EXPECT_EQ(encode(*boundary), bytes);
    }
    if (const auto record = decode_record(bytes); record.ok()) {
      EXPECT_EQ(encode(*record), bytes);
    }
    auto block = std::make_shared<std::byte[]>(bytes.size());
    std::copy(bytes.begin(), bytes.end(), block.get());
    const auto decoded = Chunk::from_block(block, bytes.size());
    if (decoded.ok()) {
      EXPECT_EQ(decoded->header().size, 40);
    }
  }
}

TEST(ChunkTest, DamageIsFound) {
  Chunk chunk = filled_chunk({.owner = Rank(1),
                              .window = Step(8),
                              .slots = 1,
                              .chunks = 1,
                              .operator_index = 0,
                              .size = 64});
  EXPECT_TRUE(chunk.verify().ok());
  chunk.writable_body()[63] ^= std::byte{1};
  EXPECT_TRUE(absl::IsDataLoss(chunk.verify()));
}

}  // namespace
}  // namespace evermoe
