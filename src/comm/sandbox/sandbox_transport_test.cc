#include "comm/sandbox/sandbox_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "comm/communicator.h"

namespace evermoe {
namespace {

using testing::ElementsAre;

class SandboxTransportTest : public testing::Test {
 protected:
  SandboxTransport transport_{Rank(1), 3};
  Communicator group_{transport_, {Rank(0), Rank(1), Rank(2)}, {View(1), 8, absl::Seconds(1)}};
};

TEST_F(SandboxTransportTest, EveryOtherMemberSaysWhatThisOneSaysToIt) {
  const std::vector<int32_t> to_first = {1, 2}, to_own = {3}, to_last = {4, 5};
  std::vector<int32_t> from_first(2), from_own(1), from_last(2);
  const std::vector<std::span<const std::byte>> sends = {std::as_bytes(std::span(to_first)),
                                                         std::as_bytes(std::span(to_own)),
                                                         std::as_bytes(std::span(to_last))};
  const std::vector<std::span<std::byte>> receives = {std::as_writable_bytes(std::span(from_first)),
                                                      std::as_writable_bytes(std::span(from_own)),
                                                      std::as_writable_bytes(std::span(from_last))};
  ASSERT_TRUE(group_.all_to_all(sends, receives).ok());
  EXPECT_EQ(from_first, to_first);
  EXPECT_EQ(from_own, to_own);
  EXPECT_EQ(from_last, to_last);
}

TEST_F(SandboxTransportTest, WhatHasAnotherLengthIsZeros) {
  std::vector<double> values(10), own(2, 7);
  std::iota(values.begin(), values.end(), 1);
  const std::vector<int64_t> begins = {0, 4, 6, 10};  // four of the first, two of this one
  ASSERT_TRUE(group_.reduce_scatter<double>(values, begins, own, ReduceOp::kSum).ok());
  EXPECT_THAT(own, ElementsAre(5, 6)) << "its own, and nothing of others";
}

TEST_F(SandboxTransportTest, EqualMembersMakeMultiplesOfOneSum) {
  std::vector<double> values = {1, 2};
  ASSERT_TRUE(group_.all_reduce<double>(values, ReduceOp::kSum).ok());
  EXPECT_THAT(values, ElementsAre(3, 6));
}

TEST_F(SandboxTransportTest, WhatNobodyReceivesIsForgotten) {
  const std::vector<std::byte> much(SandboxTransport::kSaidBytesMax / 4 + 1, std::byte{1});
  for (uint32_t i = 0; i < 8; ++i) ASSERT_TRUE(group_.start_send(0, i, much).wait().ok());
  std::vector<std::byte> oldest(much.size()), newest(much.size());
  ASSERT_TRUE(group_.start_receive(0, 0, oldest).wait().ok());
  ASSERT_TRUE(group_.start_receive(0, 7, newest).wait().ok());
  EXPECT_TRUE(oldest == std::vector<std::byte>(much.size()));
  EXPECT_TRUE(newest == much);
}

TEST_F(SandboxTransportTest, NothingLeavesIt) {
  EXPECT_DEATH(transport_.set_peers({}).IgnoreError(), "no peers");
  EXPECT_DEATH(transport_.start_send(Rank(0), {View(1), kServiceGroup, 1}, {}), "service message");
}

}  // namespace
}  // namespace evermoe
