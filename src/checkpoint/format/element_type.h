// Types of stored elements, and the parts an operator's optimizer state consists of.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace evermoe {

// kFp8 is E4M3 in blocks of kFp8BlockElements: their codes, then one byte for the power of two that
// all of them are multiplied with (checkpoint/format/narrowing.h).
enum class ElementType { kFp32, kFp64, kBf16, kFp16, kFp8 };
inline constexpr int64_t kFp8BlockElements = 64;
inline constexpr int64_t kFp8BlockBytes = kFp8BlockElements + 1;

// Of one element. REQUIRES: not kFp8.
int64_t element_bytes(ElementType type);
// Of so many elements. REQUIRES: whole blocks, for kFp8.
int64_t stored_bytes(ElementType type, int64_t elements);
// Whether a range may begin or end in front of this element.
bool may_be_cut_at(ElementType type, int64_t element);
const char* to_string(ElementType type);  // "fp32", ...
std::optional<ElementType> element_type_from_string(const std::string& text);
// The name that the safetensors format uses: "F32", ...; blocks are bytes to it, "U8".
const char* safetensors_name(ElementType type);
// Elements of that type: of kFp8 the bytes.
int64_t safetensors_elements(ElementType type, int64_t elements);

// The three parts of an operator's optimizer state. A second moment in a type narrower than FP32 is
// kept as its square root.
enum class StatePart { kMaster, kExpAvg, kExpAvgSq };
inline constexpr StatePart kStateParts[] = {StatePart::kMaster, StatePart::kExpAvg,
                                            StatePart::kExpAvgSq};
inline constexpr int kStatePartCount = 3;
const char* to_string(StatePart part);  // "master", "exp_avg", "exp_avg_sq"

// The type of each part, indexed by StatePart.
using PartTypes = std::array<ElementType, kStatePartCount>;
inline constexpr PartTypes same_types(ElementType type) { return {type, type, type}; }
constexpr ElementType type_of(const PartTypes& types, StatePart part) {
  return types[static_cast<size_t>(part)];
}
// Of all parts together.
int64_t state_bytes(const PartTypes& types, int64_t elements);
// For people: "master weights and moments fp32", "master weights fp16, moments fp8 and fp16".
std::string describe(const PartTypes& types);

}  // namespace evermoe
