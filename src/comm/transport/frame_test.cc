#include "comm/transport/frame.h"

#include <gtest/gtest.h>

#include <random>

namespace evermoe {
namespace {

const FrameHeader kSome{FrameKind::kData, Tag{View(7), 3, 0x40000001}, 16 << 20};

TEST(FrameTest, HeadersSurviveTheirEncoding) {
  const auto decoded = decode_frame(encode_frame(kSome));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->kind, kSome.kind);
  EXPECT_EQ(decoded->tag, kSome.tag);
  EXPECT_EQ(decoded->length, kSome.length);
}

TEST(FrameTest, EveryFlippedBitIsNoticed) {
  for (size_t bit = 0; bit < kFrameHeaderBytes * 8; ++bit) {
    FrameBytes bytes = encode_frame(kSome);
    bytes[bit / 8] ^= std::byte(1 << bit % 8);
    EXPECT_TRUE(absl::IsDataLoss(decode_frame(bytes).status())) << bit;
  }
}

TEST(FrameTest, ImpossibleContentsWithARightChecksumAreCorrupt) {
  FrameHeader header = kSome;
  header.length = kFramePayloadBytesMax + 1;
  EXPECT_TRUE(absl::IsDataLoss(decode_frame(encode_frame(header)).status()));
  header = {static_cast<FrameKind>(9), {}, 0};
  EXPECT_TRUE(absl::IsDataLoss(decode_frame(encode_frame(header)).status()));
  header = {FrameKind::kGoodbye, {}, 1};
  EXPECT_TRUE(absl::IsDataLoss(decode_frame(encode_frame(header)).status()));
}

TEST(FrameTest, RandomBytesAreCorrupt) {
  std::mt19937 random(5);
  for (int round = 0; round < 100'000; ++round) {
    FrameBytes bytes;
    for (std::byte& byte : bytes) byte = std::byte(random());
    if (round % 2 == 0) std::copy_n(encode_frame(kSome).begin(), 4, bytes.begin());
    EXPECT_TRUE(absl::IsDataLoss(decode_frame(bytes).status()));
  }
}

const Greeting kSomebody{Rank(3), 8, View(70'000), process_number("unix:machine:name")};

TEST(GreetingTest, GreetingsSurviveTheirEncoding) {
  const auto decoded = decode_greeting(encode_greeting(kSomebody));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, kSomebody);
}

TEST(GreetingTest, EveryFlippedBitIsNoticed) {
  for (size_t bit = 0; bit < kGreetingBytes * 8; ++bit) {
    GreetingBytes bytes = encode_greeting(kSomebody);
    bytes[bit / 8] ^= std::byte(1 << bit % 8);
    EXPECT_TRUE(absl::IsDataLoss(decode_greeting(bytes).status())) << bit;
  }
}

TEST(GreetingTest, ARankOutsideItsWorldIsCorrupt) {
  Greeting greeting = kSomebody;
  greeting.rank = Rank(8);
  EXPECT_TRUE(absl::IsDataLoss(decode_greeting(encode_greeting(greeting)).status()));
  greeting.rank = Rank(-1);
  EXPECT_TRUE(absl::IsDataLoss(decode_greeting(encode_greeting(greeting)).status()));
}

TEST(GreetingTest, FramesAndGreetingsAreNotTakenForEachOther) {
  EXPECT_TRUE(absl::IsDataLoss(decode_greeting(encode_frame(kSome)).status()));
  EXPECT_TRUE(absl::IsDataLoss(decode_frame(encode_greeting(kSomebody)).status()));
}

}  // namespace
}  // namespace evermoe
