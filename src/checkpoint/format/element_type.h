// Types of stored elements, and the parts an operator's optimizer state consists of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace evermoe {

enum class ElementType { kFp32, kFp64, kBf16, kFp16 };
int64_t element_bytes(ElementType type);
const char* to_string(ElementType type);  // "fp32", ...
std::optional<ElementType> element_type_from_string(const std::string& text);
// The name that the safetensors format uses: "F32", ...
const char* safetensors_name(ElementType type);

// The three parts of an operator's optimizer state.
enum class StatePart { kMaster, kExpAvg, kExpAvgSq };
inline constexpr StatePart kStateParts[] = {StatePart::kMaster, StatePart::kExpAvg,
                                            StatePart::kExpAvgSq};
inline constexpr int kStatePartCount = 3;
const char* to_string(StatePart part);  // "master", "exp_avg", "exp_avg_sq"

}  // namespace evermoe
