#include "checkpoint/format/element_type.h"

#include "base/check.h"

namespace evermoe {
namespace {

struct TypeRow {
  ElementType type;
  int64_t bytes;
  const char* name;
  const char* safetensors;
};

// The names are part of the format on disk.
constexpr TypeRow kTypes[] = {
    {ElementType::kFp32, 4, "fp32", "F32"},
    {ElementType::kFp64, 8, "fp64", "F64"},
    {ElementType::kBf16, 2, "bf16", "BF16"},
    {ElementType::kFp16, 2, "fp16", "F16"},
};

const TypeRow& row(ElementType type) {
  const size_t index = static_cast<size_t>(type);
  CHECK(index < std::size(kTypes) && kTypes[index].type == type) << "type " << index;
  return kTypes[index];
}

}  // namespace

int64_t element_bytes(ElementType type) { return row(type).bytes; }
const char* to_string(ElementType type) { return row(type).name; }
const char* safetensors_name(ElementType type) { return row(type).safetensors; }

std::optional<ElementType> element_type_from_string(const std::string& text) {
  for (const TypeRow& candidate : kTypes) {
    if (text == candidate.name) return candidate.type;
  }
  return std::nullopt;
}

const char* to_string(StatePart part) {
  switch (part) {
    case StatePart::kMaster: return "master";
    case StatePart::kExpAvg: return "exp_avg";
    case StatePart::kExpAvgSq: return "exp_avg_sq";
  }
  CHECK(false) << "state part " << static_cast<int>(part);
  return "";
}

}  // namespace evermoe
