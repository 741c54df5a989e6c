#include "model/initial_state.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/fingerprint.h"
#include "base/split_mix.h"

namespace evermoe {
namespace {

uint64_t name_hash(const std::string& name) {
  return fingerprint(std::as_bytes(std::span(name.data(), name.size()))).low;
}

// The stream of one parameter. Depends on names, not on places in the flat layout, so a parameter
// keeps its initial values when another one is added.
uint64_t stream_key(uint64_t seed, const std::string& operator_name, const std::string& parameter) {
  uint64_t key = split_mix(seed + kSplitMixStep);
  key = split_mix(key ^ name_hash(operator_name));
  return split_mix(key + name_hash(parameter));
}

// Twelve uniforms of 20 bits, as 2^21 times their sum less six. The result is below
// 12 * 2^20 < 2^24 in size, hence exact as a float.
int32_t irwin_hall(uint64_t key, uint64_t element) {
  constexpr uint64_t kMask = (uint64_t{1} << 20) - 1;
  int64_t sum = 0;
  for (uint64_t word = 0; word < 4; ++word) {
    const uint64_t bits = split_mix(key + (4 * element + word + 1) * kSplitMixStep);
    sum += static_cast<int64_t>((bits & kMask) + ((bits >> 20) & kMask) + ((bits >> 40) & kMask));
  }
  return static_cast<int32_t>(2 * sum + 12 - (int64_t{12} << 20));
}

// Elements [begin, end) of a parameter.
void fill_parameter(const ParameterSpec& parameter, uint64_t key, int64_t begin, int64_t end,
                    float* into) {
  if (parameter.init_std == 0) {
    std::fill(into, into + (end - begin), static_cast<float>(parameter.init_constant));
    return;
  }
  const float scale = static_cast<float>(parameter.init_std) / static_cast<float>(1 << 21);
  for (int64_t i = begin; i < end; ++i) {
    *into++ = static_cast<float>(irwin_hall(key, static_cast<uint64_t>(i))) * scale;
  }
}

}  // namespace

void fill_initial_weights(const OperatorSpec& spec, uint64_t seed, FlatRange range,
                          std::span<float> into) {
  CHECK(0 <= range.begin && range.begin <= range.end && range.end <= spec.flat_size &&
        static_cast<int64_t>(into.size()) == range.size())
      << spec.name << " [" << range.begin << ", " << range.end << ") of " << spec.flat_size
      << " into " << into.size();
  std::fill(into.begin(), into.end(), 0.0f);
  for (const ParameterSpec& parameter : spec.parameters) {
    const int64_t begin = std::max(range.begin, parameter.offset);
    const int64_t end = std::min(range.end, parameter.offset + parameter.numel());
    if (begin >= end) continue;
    fill_parameter(parameter, stream_key(seed, spec.name, parameter.name), begin - parameter.offset,
                   end - parameter.offset, into.data() + (begin - range.begin));
  }
}

}  // namespace evermoe
