#include "protection/schedule/copy_gate.h"

#include <gtest/gtest.h>

namespace evermoe {
namespace {

constexpr absl::Duration kPutOff = absl::Milliseconds(50);

CopyGate::Line at(int milliseconds, int messages, size_t chunks = 0, bool is_urgent = false) {
  return {absl::Milliseconds(milliseconds), messages, chunks, is_urgent};
}

TEST(CopyGateTest, ChunksGoInTheGapsOfMessagesOneAtATime) {
  CopyGate gate({.keeps_to_gaps = true, .put_off_max = kPutOff});
  EXPECT_TRUE(gate.may_send(at(0, 0)));
  gate.on_sent();
  EXPECT_FALSE(gate.may_send(at(1, 0, 1))) << "the one before is still on its way";
  EXPECT_FALSE(gate.may_send(at(2, 3)));
  EXPECT_FALSE(gate.may_send(at(20, 1)));
  EXPECT_TRUE(gate.may_send(at(21, 0)));
}

TEST(CopyGateTest, NoneIsPutOffForLongerThanTheLimit) {
  CopyGate gate({.keeps_to_gaps = true, .put_off_max = kPutOff});
  EXPECT_FALSE(gate.may_send(at(10, 1)));
  EXPECT_FALSE(gate.may_send(at(59, 1)));
  EXPECT_TRUE(gate.may_send(at(60, 1)));
  gate.on_sent();
  EXPECT_FALSE(gate.may_send(at(61, 1))) << "the next one waits anew";
  EXPECT_TRUE(gate.may_send(at(111, 1)));
}

TEST(CopyGateTest, WhatAStepWaitsForIsNotPutOff) {
  CopyGate gate({.keeps_to_gaps = true, .put_off_max = kPutOff, .chunks_in_flight_max = 2});
  EXPECT_TRUE(gate.may_send(at(0, 5, 1, /*is_urgent=*/true)));
  EXPECT_FALSE(gate.may_send(at(0, 0, 2, /*is_urgent=*/true)));
}

TEST(CopyGateTest, WithoutGapsOnlyTheChunksInFlightAreLimited) {
  CopyGate gate({.chunks_in_flight_max = 2});
  EXPECT_TRUE(gate.may_send(at(0, 5, 1)));
  EXPECT_FALSE(gate.may_send(at(0, 0, 2)));
}

}  // namespace
}  // namespace evermoe
