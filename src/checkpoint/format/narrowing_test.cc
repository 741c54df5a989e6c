// Narrow numbers against a table of all that each type has, and what stochastic rounding promises.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/split_mix.h"
#include "checkpoint/format/casts.h"
#include "checkpoint/format/narrowing.h"

namespace evermoe {
namespace {

constexpr auto kBlock = static_cast<size_t>(kFp8BlockElements);

// Of any bits: all exponents and both signs; without infinities and NaNs.
std::vector<float> finite_floats(size_t count, uint64_t seed) {
  std::vector<float> values;
  for (uint64_t i = 0; values.size() < count; ++i) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(split_mix(seed + i)));
    if (std::isfinite(value)) values.push_back(value);
  }
  return values;
}

// About evenly from -1 to 1.
std::vector<float> small_floats(size_t count, uint64_t seed) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(static_cast<int32_t>(split_mix(seed + i))) * 0x1p-31f;
  return values;
}

std::vector<std::byte> narrowed(const std::vector<float>& values, ElementType type,
                                const Narrowing& narrowing = {}) {
  std::vector<std::byte> into(static_cast<size_t>(stored_bytes(type, std::ssize(values))));
  narrow_elements(values, type, into, narrowing);
  return into;
}

std::vector<float> through(const std::vector<float>& values, ElementType type,
                           const Narrowing& narrowing = {}) {
  std::vector<float> back(values.size());
  widen_elements(type, narrowed(values, type, narrowing), back);
  return back;
}

TEST(NarrowingTest, ToTheNearestHasTheBitsOfTheCasts) {
  std::vector<float> values = finite_floats(200'000, 1);
  for (const float special :
       {0.0f, -0.0f, 65504.0f, 65519.9f, 65520.0f, 6e-8f, 2.98e-8f, 3e-8f, 6.1e-5f,
        std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::max()})
    values.push_back(special);
  const auto bf16 = narrowed(values, ElementType::kBf16),
             fp16 = narrowed(values, ElementType::kFp16);
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t found = 0;
    std::memcpy(&found, &bf16[2 * i], 2);
    ASSERT_EQ(found, bf16_from_float(values[i])) << values[i];
    std::memcpy(&found, &fp16[2 * i], 2);
    ASSERT_EQ(found, fp16_from_float(values[i])) << values[i];
  }
  const std::vector<float> nan = {std::numeric_limits<float>::quiet_NaN()};
  EXPECT_TRUE(std::isnan(through(nan, ElementType::kBf16)[0]));
  EXPECT_TRUE(std::isnan(through(nan, ElementType::kFp16)[0]));
}

// What E4M3 has from 0 on, from its definition.
std::vector<double> e4m3_values() {
  std::vector<double> values;
  for (int code = 0; code < 127; ++code) {
    const int exponent = code >> 3, mantissa = code & 7;
    values.push_back(exponent == 0 ? std::ldexp(mantissa, -9)
                                   : std::ldexp(8 + mantissa, exponent - 10));
  }
  return values;
}

TEST(NarrowingTest, BlocksHaveTheLeastScaleAndTheNearestCodes) {
  const std::vector<double> table = e4m3_values();
  ASSERT_EQ(table.back(), 448);
  for (uint64_t round = 0; round < 300; ++round) {
    std::vector<float> block = small_floats(kBlock, round * 1000);
    for (float& value : block) value = std::ldexp(value, static_cast<int>(round % 200) - 100);
    block[3] *= 1e-4f;
    const auto stored = narrowed(block, ElementType::kFp8);
    const double scale = std::ldexp(1.0, static_cast<int>(stored[kBlock]) - 127);
    double largest = 0;
    for (const float value : block) largest = std::max(largest, std::abs(double{value}));
    EXPECT_LE(largest, 448 * scale);
    EXPECT_GT(largest, 448 * scale / 2);
    const std::vector<float> back = through(block, ElementType::kFp8);
    for (size_t i = 0; i < kBlock; ++i) {
      const double exact = std::abs(double{block[i]}) / scale;
      double nearest = 0;
      for (const double value : table) {
        if (std::abs(value - exact) < std::abs(nearest - exact)) nearest = value;
      }
      EXPECT_EQ(std::abs(std::abs(double{back[i]}) / scale - exact), std::abs(nearest - exact))
          << block[i];
      EXPECT_EQ(std::signbit(back[i]), std::signbit(block[i]));
    }
  }
}

TEST(NarrowingTest, ZerosAreZeroBytesAndWhatIsNotFiniteSpoilsItsBlockAlone) {
  const std::vector<std::byte> zeros(static_cast<size_t>(kFp8BlockBytes));
  EXPECT_EQ(narrowed(std::vector<float>(kBlock), ElementType::kFp8), zeros);
  std::vector<float> values = small_floats(2 * kBlock, 7);
  values[5] = std::numeric_limits<float>::infinity();
  const std::vector<float> back = through(values, ElementType::kFp8);
  EXPECT_TRUE(std::ranges::all_of(back.begin(), back.begin() + kBlock,
                                  [](float value) { return std::isnan(value); }));
  EXPECT_TRUE(std::ranges::all_of(back.begin() + kBlock, back.end(),
                                  [](float value) { return std::isfinite(value); }));
}

class StochasticTest : public testing::TestWithParam<ElementType> {};

// Blocks have their own scale, which the largest value fixes here.
std::vector<float> spread(float value) {
  std::vector<float> values(kBlock * 1000, value);
  for (size_t i = 0; i < values.size(); i += kBlock) values[i] = 1;
  return values;
}

TEST_P(StochasticTest, TheMeanIsTheExactValue) {
  for (const float value : {0.3f, -0.123456f, 1.7e-3f, 1e-5f, 3e-8f}) {
    const std::vector<float> values = spread(value);
    const std::vector<float> back = through(values, GetParam(), {.random = RoundingStream{42, 0}});
    double sum = 0, square = 0;
    int count = 0;
    for (size_t i = 0; i < back.size(); ++i) {
      if (i % kBlock == 0) continue;
      sum += back[i];
      square += double{back[i]} * back[i];
      ++count;
    }
    const double mean = sum / count, deviation = std::sqrt(square / count - mean * mean);
    EXPECT_NEAR(mean, value, 5 * deviation / std::sqrt(count) + 1e-12) << value;
  }
}

TEST(NarrowingTest, OfWhatIsFarBelowTheSmallestStepSomeGoesUp) {
  for (const auto& [type, step] : {std::pair(ElementType::kFp16, 0x1p-24f),
                                   std::pair(ElementType::kFp8, 0x1p-17f)}) {  // beside a 1
    for (const double share : {0x1p-8, 0x1p-9, 0x1p-11}) {
      std::vector<float> values(kBlock * 8192, static_cast<float>(step * share));
      for (size_t i = 0; i < values.size(); i += kBlock) values[i] = 1;
      const std::vector<float> back = through(values, type, {.random = RoundingStream{42, 0}});
      const auto up = static_cast<double>(std::ranges::count(back, step));
      const double expected = share * static_cast<double>(values.size() / kBlock * (kBlock - 1));
      EXPECT_NEAR(up, expected, 5 * std::sqrt(expected)) << to_string(type) << " " << share;
    }
  }
}

TEST_P(StochasticTest, GoesToOneOfTheTwoNeighboursAndKeepsWhatFits) {
  const std::vector<float> values = small_floats(kBlock * 100, 3);
  const std::vector<float> nearest = through(values, GetParam());
  EXPECT_EQ(through(nearest, GetParam(), {.random = RoundingStream{9, 0}}), nearest)
      << "what can be stored is changed";
  std::vector<std::vector<float>> draws;
  for (uint64_t key = 0; key < 40; ++key)
    draws.push_back(through(values, GetParam(), {.random = RoundingStream{key, 0}}));
  int with_two = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    std::vector<float> seen;
    for (const auto& draw : draws) seen.push_back(draw[i]);
    const auto [least, most] = std::ranges::minmax(seen);
    EXPECT_TRUE(std::ranges::all_of(seen, [&](float x) { return x == least || x == most; }));
    if (least == most) continue;
    EXPECT_LE(least, values[i]);
    EXPECT_GE(most, values[i]);
    EXPECT_TRUE(nearest[i] == least || nearest[i] == most) << values[i];
    ++with_two;
  }
  EXPECT_GT(with_two, std::ssize(values) / 2);
}

// A shard, a part or a chunk rounds its elements as the whole does.
TEST_P(StochasticTest, DoesNotDependOnWhereARangeIsCut) {
  const std::vector<float> values = small_floats(kBlock * 9, 5);
  const std::vector<float> whole = through(values, GetParam(), {.random = RoundingStream{77, 640}});
  for (size_t cut = 0; cut <= values.size(); cut += kBlock) {
    std::vector<float> pieces;
    for (const auto& [begin, end] : {std::pair(size_t{0}, cut), std::pair(cut, values.size())}) {
      const std::vector<float> piece(values.begin() + static_cast<std::ptrdiff_t>(begin),
                                     values.begin() + static_cast<std::ptrdiff_t>(end));
      const std::vector<float> back = through(
          piece, GetParam(), {.random = RoundingStream{77, 640 + static_cast<int64_t>(begin)}});
      pieces.insert(pieces.end(), back.begin(), back.end());
    }
    EXPECT_EQ(pieces, whole) << "cut at " << cut;
  }
  EXPECT_NE(through(values, GetParam(), {.random = RoundingStream{78, 640}}), whole);
  EXPECT_NE(through(values, GetParam(), {.random = RoundingStream{77, 641}}), whole);
}

TEST_P(StochasticTest, APositiveValueIsKeptWhereAsked) {
  const std::vector<float> values = spread(1e-30f);
  for (const float value :
       through(values, GetParam(), {.random = RoundingStream{1, 0}, .keeps_positive = true}))
    ASSERT_GT(value, 0);
  const std::vector<float> zeros(kBlock);
  EXPECT_EQ(through(zeros, GetParam(), {.random = RoundingStream{1, 0}, .keeps_positive = true}),
            zeros);
}

INSTANTIATE_TEST_SUITE_P(All, StochasticTest,
                         testing::Values(ElementType::kBf16, ElementType::kFp16, ElementType::kFp8),
                         [](const auto& info) { return to_string(info.param); });

TEST(NarrowingTest, BytesOfAParameterAreThoseOfTable7) {
  const auto bytes = [](ElementType master, ElementType first, ElementType second) {
    return static_cast<double>(state_bytes({master, first, second}, 6400)) / 6400;
  };
  using enum ElementType;
  // MoEtion, Table 7: bytes of masters and moments; a block's scale adds 1/64 to each FP8 part.
  EXPECT_EQ(bytes(kFp16, kFp16, kFp16), 6);
  EXPECT_EQ(bytes(kFp32, kFp32, kFp32), 12);
  EXPECT_EQ(bytes(kFp16, kFp32, kFp32), 10);
  EXPECT_EQ(bytes(kFp16, kFp8, kFp16), 5 + 1.0 / 64);
  EXPECT_EQ(bytes(kFp8, kFp8, kFp16), 4 + 2.0 / 64);
}

}  // namespace
}  // namespace evermoe
