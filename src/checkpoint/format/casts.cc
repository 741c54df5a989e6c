#include "checkpoint/format/casts.h"

#include <bit>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "checkpoint/format/narrowing.h"

namespace evermoe {
namespace {

struct Bf16 {
  uint16_t bits;
};
struct Fp16 {
  uint16_t bits;
};

float to_float(float value) { return value; }
float to_float(double value) { return static_cast<float>(value); }
float to_float(Bf16 value) { return float_from_bf16(value.bits); }
float to_float(Fp16 value) { return float_from_fp16(value.bits); }

template <typename To>
To from_float(float value) {
  return static_cast<To>(value);
}
template <>
Bf16 from_float<Bf16>(float value) {
  return {bf16_from_float(value)};
}
template <>
Fp16 from_float<Fp16>(float value) {
  return {fp16_from_float(value)};
}

template <typename From, typename To>
void cast_array(std::span<const std::byte> from, std::span<std::byte> to) {
  const size_t count = from.size() / sizeof(From);
  CHECK(count * sizeof(From) == from.size() && count * sizeof(To) == to.size());
  const From* source = reinterpret_cast<const From*>(from.data());
  To* target = reinterpret_cast<To*>(to.data());
  for (size_t i = 0; i < count; ++i) target[i] = from_float<To>(to_float(source[i]));
}

template <typename From>
void cast_from(std::span<const std::byte> from, ElementType to_type, std::span<std::byte> to) {
  switch (to_type) {
    case ElementType::kFp32: return cast_array<From, float>(from, to);
    case ElementType::kFp64: return cast_array<From, double>(from, to);
    case ElementType::kBf16: return cast_array<From, Bf16>(from, to);
    case ElementType::kFp16: return cast_array<From, Fp16>(from, to);
    case ElementType::kFp8: break;
  }
  CHECK(false) << to_string(to_type);
}

// One of the two is kFp8.
void cast_blocks(ElementType from_type, std::span<const std::byte> from, ElementType to_type,
                 std::span<std::byte> to) {
  const bool is_from = from_type == ElementType::kFp8;
  const size_t blocks = (is_from ? from : to).size() / kFp8BlockBytes;
  std::vector<float> wide(blocks * kFp8BlockElements);
  const auto wide_bytes = std::as_writable_bytes(std::span(wide));
  if (is_from) {
    widen_elements(from_type, from, wide);
    cast_elements(ElementType::kFp32, wide_bytes, to_type, to);
  } else {
    cast_elements(from_type, from, ElementType::kFp32, wide_bytes);
    narrow_elements(wide, to_type, to);
  }
}

}  // namespace

uint16_t bf16_from_float(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
  const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return static_cast<uint16_t>(is_nan ? 0x7fc0 : rounded);
}

float float_from_bf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

uint16_t fp16_from_float(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // rounds to 65536 or more
  if (magnitude >= 0x38800000) {                      // normal: drop 13 bits of the mantissa
    const uint32_t rebased = magnitude - 0x38000000;
    return static_cast<uint16_t>(sign | (rebased + 0xfff + (rebased >> 13 & 1)) >> 13);
  }
  // Subnormal: adding 0.5 lets the float adder place and round the bits; one unit in its last
  // place is 2^-24, the smallest half.
  const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
  return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000));
}

float float_from_fp16(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t magnitude = bits & 0x7fff;
  if (magnitude >= 0x7c00)
    return std::bit_cast<float>(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  if (magnitude >= 0x400) return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000));
  const float value = static_cast<float>(magnitude) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

void cast_elements(ElementType from_type, std::span<const std::byte> from, ElementType to_type,
                   std::span<std::byte> to) {
  if (from_type == to_type) {
    CHECK(from.size() == to.size());
    if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
    return;
  }
  if (from_type == ElementType::kFp8 || to_type == ElementType::kFp8)
    return cast_blocks(from_type, from, to_type, to);
  switch (from_type) {
    case ElementType::kFp32: return cast_from<float>(from, to_type, to);
    case ElementType::kFp64: return cast_from<double>(from, to_type, to);
    case ElementType::kBf16: return cast_from<Bf16>(from, to_type, to);
    case ElementType::kFp16: return cast_from<Fp16>(from, to_type, to);
    case ElementType::kFp8: break;
  }
}

}  // namespace evermoe
