// From FP32 to the types that state is stored in, and back.
//
// A block of kFp8 is kFp8BlockElements codes of E4M3 (sign, 4 bits of exponent, 3 of mantissa, no
// infinity) and a byte b: element i is code[i] * 2^(b - 127), as in the OCP Microscaling Formats
// (MX) specification 1.0, but with 64 elements. b is the smallest with which the largest element is
// at most 448; it is a function of the block alone. 255: something in the block is not finite.
//
// Pure functions of their arguments, in integer arithmetic: the same bits on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "checkpoint/format/element_type.h"

namespace evermoe {

// Where the random numbers of stochastic rounding come from: element i of a call takes number
// `first + i` of the stream `key`.
struct RoundingStream {
  uint64_t key = 0;
  int64_t first = 0;
};

struct Narrowing {
  // Nothing: to the nearest, ties to even. Otherwise up or down at random, so that the mean is the
  // exact value, however small its distance to what can be stored. (Exact to 2^-32 of the distance
  // between the two: there are 32 random bits.)
  std::optional<RoundingStream> random = std::nullopt;
  // A positive value never becomes zero: for what something is divided by.
  bool keeps_positive = false;
};

// Writes `from` in the type `to`. Overflow becomes infinity; in a block nothing overflows, and one
// value that is not finite makes all of them NaN.
// REQUIRES: `into` has stored_bytes(to, from.size()); not kFp64.
void narrow_elements(std::span<const float> from, ElementType to, std::span<std::byte> into,
                     const Narrowing& narrowing = {});

// The reverse: exact. REQUIRES: `from` has stored_bytes(type, into.size()); not kFp64.
void widen_elements(ElementType type, std::span<const std::byte> from, std::span<float> into);

}  // namespace evermoe
