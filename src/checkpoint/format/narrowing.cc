#include "checkpoint/format/narrowing.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/split_mix.h"
#include "checkpoint/format/casts.h"

namespace evermoe {
namespace {

constexpr uint32_t kInfinity = 0x7f800000;
constexpr uint32_t kSign = 0x80000000;

uint32_t magnitude_of(float value) { return std::bit_cast<uint32_t>(value) & ~kSign; }

// 32 random bits of element `first + i`.
uint32_t random_bits(const RoundingStream& stream, size_t i) {
  const uint64_t n = static_cast<uint64_t>(stream.first) + i + 1;
  return static_cast<uint32_t>(split_mix(stream.key + n * kSplitMixStep) >> 32);
}

// A binary format as the code of a magnitude: exponent above `mantissa_bits` bits of mantissa.
// `least_exponent` is the FP32 exponent field of its smallest normal number.
struct Format {
  int mantissa_bits;
  int least_exponent;
};
constexpr Format kBf16Format{7, 1}, kFp16Format{10, 113};
constexpr int kE4m3MantissaBits = 3;
constexpr int kE4m3LeastExponent = 121;  // 2^-6

// What is left of 24 bits when so many are dropped.
uint32_t kept_to_nearest(uint32_t significand, int drop) {
  if (drop > 24) return 0;  // less than one half
  return (significand + (1u << (drop - 1)) - 1 + (significand >> drop & 1)) >> drop;
}

uint32_t kept_at_random(uint32_t significand, int drop, uint32_t random) {
  const int used = std::min(drop, 32);  // random bits
  const uint64_t compared = uint64_t{significand} >> std::min(drop - used, 31);
  return static_cast<uint32_t>((compared + (random & ((uint64_t{1} << used) - 1))) >> used);
}

// The code of a finite FP32 magnitude. Exponents go on beyond what the format has: the caller looks
// for overflow.
uint32_t rounded_code(uint32_t magnitude, Format format, const Narrowing& narrowing, size_t i) {
  const int field = static_cast<int>(magnitude >> 23);
  const uint32_t significand = (magnitude & 0x7fffff) | (field > 0 ? 0x800000u : 0u);
  const int exponent = std::max(field, 1);
  const int drop = 23 - format.mantissa_bits + std::max(format.least_exponent - exponent, 0);
  const uint32_t kept = narrowing.random
                            ? kept_at_random(significand, drop, random_bits(*narrowing.random, i))
                            : kept_to_nearest(significand, drop);
  const uint32_t code = (static_cast<uint32_t>(std::max(exponent - format.least_exponent, 0))
                         << format.mantissa_bits) +
                        kept;
  return code == 0 && magnitude > 0 && narrowing.keeps_positive ? 1 : code;
}

// BF16 or FP16.
uint16_t half_code(float value, Format format, const Narrowing& narrowing, size_t i) {
  const uint32_t magnitude = magnitude_of(value);
  const auto sign = static_cast<uint16_t>((std::bit_cast<uint32_t>(value) & kSign) >> 16);
  const uint32_t infinity = 0x7fffu >> format.mantissa_bits << format.mantissa_bits;
  if (magnitude > kInfinity)
    return static_cast<uint16_t>(sign | infinity | 1u << (format.mantissa_bits - 1));
  if (magnitude == kInfinity) return static_cast<uint16_t>(sign | infinity);
  return static_cast<uint16_t>(sign |
                               std::min(rounded_code(magnitude, format, narrowing, i), infinity));
}

void narrow_halves(std::span<const float> from, Format format, std::byte* into,
                   const Narrowing& narrowing) {
  for (size_t i = 0; i < from.size(); ++i) {
    const uint16_t code = half_code(from[i], format, narrowing, i);
    std::memcpy(into + sizeof(code) * i, &code, sizeof(code));
  }
}

// ---- blocks

constexpr uint32_t kNoScale = 255;
// With smaller ones the smallest normal code would be no normal number of FP32.
constexpr uint32_t kLeastScale = 8;

uint32_t scale_of(std::span<const float> block) {
  uint32_t largest = 0;
  for (const float value : block) largest = std::max(largest, magnitude_of(value));
  if (largest == 0) return 0;
  if (largest >= kInfinity) return kNoScale;
  const bool is_above = (largest & 0x7fffff) > 0x600000;  // 448 is 1.75 * 2^8
  const uint32_t scale = (largest >> 23) + (is_above ? 1 : 0);
  return std::max(scale, kLeastScale + 8) - 8;
}

void narrow_block(std::span<const float> from, std::byte* into, const Narrowing& narrowing,
                  size_t first) {
  const uint32_t scale = scale_of(from);
  into[kFp8BlockElements] = static_cast<std::byte>(scale);
  const Format format{kE4m3MantissaBits, kE4m3LeastExponent + static_cast<int>(scale) - 127};
  for (size_t i = 0; i < from.size(); ++i) {
    const uint32_t magnitude = magnitude_of(from[i]);
    const uint32_t code =
        scale == kNoScale || scale == 0 ? 0 : rounded_code(magnitude, format, narrowing, first + i);
    const uint32_t sign = (std::bit_cast<uint32_t>(from[i]) & kSign) >> 24;
    into[i] = static_cast<std::byte>(sign | code);
  }
}

float e4m3_value(uint32_t code) {
  const uint32_t magnitude = code & 0x7f;
  // A subnormal is a multiple of 2^-9.
  const float value = magnitude < 8 ? static_cast<float>(magnitude) * 0x1p-9f
                                    : std::bit_cast<float>((magnitude << 20) + (120u << 23));
  return (code & 0x80) != 0 ? -value : value;
}

// 2^(scale - 127).
float scale_value(uint32_t scale) {
  if (scale == kNoScale) return std::bit_cast<float>(0x7fc00000u);
  return std::bit_cast<float>(scale == 0 ? 0x00400000u : scale << 23);
}

void widen_block(const std::byte* from, std::span<float> into) {
  const auto scale = static_cast<uint32_t>(from[kFp8BlockElements]);
  const float factor = scale_value(scale);
  for (size_t i = 0; i < into.size(); ++i)
    into[i] = e4m3_value(static_cast<uint32_t>(from[i])) * factor;
}

template <typename Visit>
void for_each_block(size_t elements, Visit visit) {
  constexpr auto kElements = static_cast<size_t>(kFp8BlockElements);
  for (size_t first = 0, at = 0; first < elements;
       first += kElements, at += static_cast<size_t>(kFp8BlockBytes))
    visit(first, at);
}

}  // namespace

void narrow_elements(std::span<const float> from, ElementType to, std::span<std::byte> into,
                     const Narrowing& narrowing) {
  CHECK(static_cast<int64_t>(into.size()) == stored_bytes(to, std::ssize(from))) << to_string(to);
  if (from.empty()) return;
  switch (to) {
    case ElementType::kFp32: std::memcpy(into.data(), from.data(), into.size()); return;
    case ElementType::kBf16: return narrow_halves(from, kBf16Format, into.data(), narrowing);
    case ElementType::kFp16: return narrow_halves(from, kFp16Format, into.data(), narrowing);
    case ElementType::kFp8:
      return for_each_block(from.size(), [&](size_t first, size_t at) {
        narrow_block(from.subspan(first, static_cast<size_t>(kFp8BlockElements)), &into[at],
                     narrowing, first);
      });
    case ElementType::kFp64: break;
  }
  CHECK(false) << to_string(to);
}

void widen_elements(ElementType type, std::span<const std::byte> from, std::span<float> into) {
  CHECK(static_cast<int64_t>(from.size()) == stored_bytes(type, std::ssize(into)))
      << to_string(type);
  if (into.empty()) return;
  const auto half = [&](size_t i) {
    uint16_t bits = 0;
    std::memcpy(&bits, from.data() + sizeof(bits) * i, sizeof(bits));
    return bits;
  };
  switch (type) {
    case ElementType::kFp32: std::memcpy(into.data(), from.data(), from.size()); return;
    case ElementType::kBf16:
      for (size_t i = 0; i < into.size(); ++i) into[i] = float_from_bf16(half(i));
      return;
    case ElementType::kFp16:
      for (size_t i = 0; i < into.size(); ++i) into[i] = float_from_fp16(half(i));
      return;
    case ElementType::kFp8:
      return for_each_block(into.size(), [&](size_t first, size_t at) {
        widen_block(&from[at], into.subspan(first, static_cast<size_t>(kFp8BlockElements)));
      });
    case ElementType::kFp64: break;
  }
  CHECK(false) << to_string(type);
}

}  // namespace evermoe
