#include "comm/frame.h"

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

}  // namespace
}  // namespace evermoe
