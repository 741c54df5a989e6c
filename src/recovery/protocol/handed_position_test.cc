#include "recovery/protocol/handed_position.h"

#include <gtest/gtest.h>

namespace evermoe {
namespace {

HandedPosition example_of_hand_over() {
  HandedPosition handed;
  handed.position = {std::byte{1}, std::byte{2}, std::byte{3}};
  handed.record.state = Step(7);
  handed.record.complete_window = Step(4);
  handed.record.combined = {{0.5, 2}, {-3}};
  return handed;
}

TEST(HandedPosition, ComesBackAsItWas) {
  const auto again = decode_handed_position(encode(example_of_hand_over()));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->position, example_of_hand_over().position);
  EXPECT_EQ(again->record, example_of_hand_over().record);
}

TEST(HandedPosition, WhatIsCutOffIsRefused) {
  const RecordBytes whole = encode(example_of_hand_over());
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto cut = decode_handed_position(std::span(whole).first(size));
    EXPECT_TRUE(absl::IsDataLoss(cut.status())) << size << ": " << cut.status();
  }
}

TEST(HandedPosition, ALengthThatCannotBeIsRefused) {
  RecordBytes bytes = encode(example_of_hand_over());
  for (size_t i = 0; i < sizeof(uint64_t); ++i) bytes[i] = std::byte{0xff};
  EXPECT_TRUE(absl::IsDataLoss(decode_handed_position(bytes).status()));
}

}  // namespace
}  // namespace evermoe
