// Where operators are cut: within the limit, evenly, at the alignment that keeps bits.

#include <gtest/gtest.h>

#include <limits>

#include "train/state/operator_parts.h"

namespace evermoe {
namespace {

constexpr int64_t kBlockBytes = 12 * kFlatAlignment;
constexpr int64_t kMiB = int64_t{1} << 20;

OperatorSpec spec(const std::string& name, int64_t blocks) {
  OperatorSpec result;
  result.name = name;
  result.flat_size = blocks * kFlatAlignment;
  return result;
}

TEST(OperatorPartsTest, WhatIsSmallStaysWhole) {
  const std::vector<OperatorSpec> operators = {spec("embedding", 10), spec("head", 3)};
  for (const int64_t limit : {10 * kBlockBytes, std::numeric_limits<int64_t>::max()}) {
    const auto parts = cut_operators(operators, kBlockBytes, limit);
    ASSERT_EQ(parts.size(), 2);
    EXPECT_EQ(parts[0].name, "embedding");
    EXPECT_EQ(parts[0].range, (FlatRange{0, operators[0].flat_size}));
    EXPECT_EQ(parts[1].name, "head");
    EXPECT_EQ(parts[1].operator_index, 1);
  }
}

TEST(OperatorPartsTest, NamesSayWhichPartOfHowMany) {
  const auto parts =
      cut_operators({spec("embedding", 10), spec("head", 3)}, kBlockBytes, 4 * kBlockBytes - 1);
  ASSERT_EQ(parts.size(), 5);
  const char* const names[] = {"embedding[0/4]", "embedding[1/4]", "embedding[2/4]",
                               "embedding[3/4]", "head"};
  for (size_t i = 0; i < parts.size(); ++i) EXPECT_EQ(parts[i].name, names[i]);
}

TEST(OperatorPartsTest, PartsAreAlignedEvenAndAsFewAsTheLimitAllows) {
  for (int64_t blocks = 1; blocks < 70; ++blocks) {
    for (int64_t limit = 1; limit < 80 * kBlockBytes; limit += kBlockBytes / 3) {
      const auto parts = cut_operators({spec("block", blocks)}, kBlockBytes, limit);
      const int64_t allowed = std::max<int64_t>(limit / kBlockBytes, 1);
      ASSERT_EQ(static_cast<int64_t>(parts.size()), (blocks + allowed - 1) / allowed)
          << blocks << " blocks by " << limit;
      int64_t end = 0, smallest = blocks, largest = 0;
      for (const OperatorPart& part : parts) {
        ASSERT_EQ(part.range.begin, end);
        ASSERT_EQ(part.range.begin % kFlatAlignment, 0);
        end = part.range.end;
        smallest = std::min(smallest, part.range.size() / kFlatAlignment);
        largest = std::max(largest, part.range.size() / kFlatAlignment);
      }
      ASSERT_EQ(end, blocks * kFlatAlignment);
      ASSERT_LE(largest, allowed) << blocks << " blocks by " << limit;
      ASSERT_LE(largest - smallest, 1) << blocks << " blocks by " << limit;
    }
  }
}

TEST(OperatorPartsTest, AutomaticPartsAreASixtyFourthOfTheStageButNotTiny) {
  EXPECT_EQ(resolve_part_bytes(0, 0), 4 * kMiB);
  EXPECT_EQ(resolve_part_bytes(0, 256 * kMiB), 4 * kMiB);
  EXPECT_EQ(resolve_part_bytes(0, 640 * kMiB), 10 * kMiB);
  EXPECT_EQ(resolve_part_bytes(1024, 640 * kMiB), 1024);
  EXPECT_EQ(resolve_part_bytes(1024 * kMiB, kMiB), 1024 * kMiB);
}

}  // namespace
}  // namespace evermoe
