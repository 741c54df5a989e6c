// Messages of a view that is not open yet take a limited part of memory.
#include "recovery/member/serve/next_view_messages.h"

#include <gtest/gtest.h>

#include <memory>

namespace evermoe {
namespace {

ServiceMessage message(size_t size, int from = 0) {
  // Of no memory of that size: it is only counted.
  return {Rank(from), Tag{View(2), kServiceGroup, 1}, size, std::make_unique<std::byte[]>(1)};
}

TEST(NextViewMessagesTest, WaitInTheOrderInWhichTheyCame) {
  NextViewMessages waiting;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(waiting.add(message(10, i)));
  EXPECT_EQ(waiting.bytes(), 3 * (10 + NextViewMessages::kBytesOfEach));
  const auto taken = waiting.take();
  ASSERT_EQ(taken.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(taken[static_cast<size_t>(i)].from, Rank(i));
  EXPECT_EQ(waiting.bytes(), 0u);
  EXPECT_TRUE(waiting.take().empty());
}

TEST(NextViewMessagesTest, BeyondTheLimitInBytesAreDropped) {
  NextViewMessages waiting;
  const size_t size = size_t{1} << 20;
  size_t kept = 0;
  for (int i = 0; i < 1000; ++i) kept += waiting.add(message(size, i % 7)) ? 1 : 0;
  EXPECT_EQ(kept, NextViewMessages::kBytesMax / (size + NextViewMessages::kBytesOfEach));
  EXPECT_LE(waiting.bytes(), NextViewMessages::kBytesMax);
  EXPECT_TRUE(waiting.add(message(100))) << "a small one may still fit";
  EXPECT_FALSE(waiting.add(message(size)));
  waiting.take();
  EXPECT_TRUE(waiting.add(message(size))) << "there is room again";
}

TEST(NextViewMessagesTest, BeyondTheLimitInNumberAreDropped) {
  NextViewMessages waiting;
  for (size_t i = 0; i < NextViewMessages::kCountMax; ++i) ASSERT_TRUE(waiting.add(message(0)));
  EXPECT_FALSE(waiting.add(message(0)));
  EXPECT_EQ(waiting.take().size(), NextViewMessages::kCountMax);
}

TEST(NextViewMessagesTest, OneOfAnySizeFindsRoom) {
  NextViewMessages waiting;
  EXPECT_TRUE(waiting.add(message(10 * NextViewMessages::kBytesMax)));
  EXPECT_FALSE(waiting.add(message(0)));
}

}  // namespace
}  // namespace evermoe
