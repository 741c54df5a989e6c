#include "planner/simulate/random_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace evermoe {
namespace {

using Words4 = std::array<uint32_t, 4>;
using Words2 = std::array<uint32_t, 2>;

// The known answers of the authors' library (Random123, kat_vectors).
TEST(RandomStreamTest, PhiloxKnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, Words2{0, 0}),
            (Words4{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox4x32({ones, ones, ones, ones}, Words2{ones, ones}),
            (Words4{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, Words2{0xa4093822, 0x299f31d0}),
      (Words4{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStreamTest, NumbersAreAFunctionOfSeedStreamAndIndex) {
  RandomStream first(7, 3), second(7, 3), other_stream(7, 4), other_seed(8, 3);
  for (int i = 0; i < 5; ++i) first.bits();
  RandomStream copy = first;
  std::vector<uint64_t> tail;
  for (int i = 0; i < 5; ++i) tail.push_back(first.bits());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(copy.bits(), tail[static_cast<size_t>(i)]);
  for (int i = 0; i < 5; ++i) second.bits();
  EXPECT_EQ(second.bits(), tail[0]);
  EXPECT_EQ(second.drawn(), 6u);
  EXPECT_NE(other_stream.bits(), RandomStream(7, 3).bits());
  EXPECT_NE(other_seed.bits(), RandomStream(7, 3).bits());
}

// Kolmogorov's distance between draws and a distribution, times the root of their number.
// Above 1.95 once in a thousand.
double kolmogorov(const std::function<double(RandomStream&)>& draw,
                  const std::function<double(double)>& below) {
  constexpr int kDraws = 20000;
  RandomStream random(2026, 1);
  std::vector<double> values;
  for (int i = 0; i < kDraws; ++i) values.push_back(below(draw(random)));
  std::sort(values.begin(), values.end());
  double distance = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double value = values[static_cast<size_t>(i)];
    distance = std::max({distance, value - i / double{kDraws}, (i + 1) / double{kDraws} - value});
  }
  return distance * std::sqrt(kDraws);
}

TEST(RandomStreamTest, DistributionsAreTheOnesNamed) {
  EXPECT_LT(kolmogorov([](RandomStream& r) { return r.uniform(); }, [](double x) { return x; }),
            1.95);
  EXPECT_LT(kolmogorov([](RandomStream& r) { return r.exponential(3); },
                       [](double x) { return -std::expm1(-x / 3); }),
            1.95);
  EXPECT_LT(kolmogorov([](RandomStream& r) { return r.weibull(0.7, 2); },
                       [](double x) { return -std::expm1(-std::pow(x / 2, 0.7)); }),
            1.95);
  EXPECT_LT(kolmogorov([](RandomStream& r) { return r.normal(); },
                       [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2)); }),
            1.95);
  // Gamma(3): 1 - e^-x (1 + x + x^2 / 2).
  EXPECT_LT(kolmogorov([](RandomStream& r) { return r.gamma(3); },
                       [](double x) { return 1 - std::exp(-x) * (1 + x + x * x / 2); }),
            1.95);
}

TEST(RandomStreamTest, BelowHitsEveryNumberEquallyOften) {
  RandomStream random(1, 1);
  std::vector<int> hits(7, 0);
  for (int i = 0; i < 70000; ++i) ++hits[static_cast<size_t>(random.below(7))];
  for (const int count : hits) EXPECT_NEAR(count, 10000, 4 * std::sqrt(10000.0));
}

}  // namespace
}  // namespace evermoe
