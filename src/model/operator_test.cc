#include "model/operator.h"

#include <gtest/gtest.h>

namespace evermoe {
namespace {

OperatorSpec spec(std::vector<ParameterSpec> parameters) {
  OperatorSpec result;
  result.parameters = std::move(parameters);
  result.layout();
  return result;
}

ParameterSpec parameter(std::string name, std::vector<int64_t> shape, bool decayed) {
  ParameterSpec result;
  result.name = std::move(name);
  result.shape = std::move(shape);
  result.decayed = decayed;
  return result;
}

TEST(OperatorTest, DecayedParametersComeFirstAndAllAreAligned) {
  const OperatorSpec s = spec({parameter("norm", {65}, false), parameter("w", {3, 7}, true)});
  EXPECT_EQ(s.parameters[0].name, "w");
  EXPECT_EQ(s.parameters[0].offset, 0);
  EXPECT_EQ(s.decayed_size, 64);
  EXPECT_EQ(s.parameters[1].offset, 64);
  EXPECT_EQ(s.flat_size, 64 + 128);
  EXPECT_EQ(s.parameter_count(), 65 + 21);
}

TEST(OperatorTest, ShardsAreContiguousAlignedAndCoverTheWhole) {
  for (int64_t blocks = 0; blocks < 20; ++blocks) {
    for (int owners = 1; owners <= 7; ++owners) {
      int64_t end = 0;
      for (int i = 0; i < owners; ++i) {
        const FlatRange range = shard_range(blocks * kFlatAlignment, owners, i);
        EXPECT_EQ(range.begin, end);
        EXPECT_EQ(range.begin % kFlatAlignment, 0);
        EXPECT_LE(range.size(), (blocks / owners + 1) * kFlatAlignment);
        end = range.end;
      }
      EXPECT_EQ(end, blocks * kFlatAlignment);
    }
  }
}

}  // namespace
}  // namespace evermoe
