#include "planner/simulate/random_stream.h"

#include <cmath>
#include <numbers>

#include "base/check.h"

namespace evermoe {
namespace {

constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;

uint32_t low(uint64_t value) { return static_cast<uint32_t>(value); }
uint32_t high(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

}  // namespace

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0];
    const uint64_t product1 = kMultiplier1 * counter[2];
    counter = {high(product1) ^ counter[1] ^ key[0], low(product1),
               high(product0) ^ counter[3] ^ key[1], low(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

// A block has two numbers; the even one of a pair is its lower half.
uint64_t RandomStream::bits() {
  const uint64_t block = index_ / 2;
  const auto words =
      philox4x32({low(block), high(block), low(stream_), high(stream_)}, {low(seed_), high(seed_)});
  const size_t first = 2 * (index_++ % 2);
  return words[first] | uint64_t{words[first + 1]} << 32;
}

double RandomStream::uniform() { return (static_cast<double>(bits() >> 11) + 0.5) * 0x1p-53; }

int RandomStream::below(int count) {
  CHECK(count >= 1) << count;
  // Biased by less than count / 2^64.
  return static_cast<int>(static_cast<unsigned __int128>(bits()) * static_cast<unsigned>(count) >>
                          64);
}

double RandomStream::exponential(double mean) { return -mean * std::log(uniform()); }

double RandomStream::weibull(double shape, double scale) {
  CHECK(shape > 0) << shape;
  return scale * std::pow(-std::log(uniform()), 1 / shape);
}

double RandomStream::normal() {
  const double radius = std::sqrt(-2 * std::log(uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

double RandomStream::gamma(double shape) {
  CHECK(shape >= 1) << shape;
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = normal();
    const double cube = std::pow(1 + c * x, 3);
    if (cube <= 0) continue;
    if (std::log(uniform()) < x * x / 2 + d - d * cube + d * std::log(cube)) return d * cube;
  }
}

}  // namespace evermoe
