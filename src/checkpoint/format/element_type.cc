#include "checkpoint/format/element_type.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "model/operator.h"

namespace evermoe {
namespace {

// So that a shard or a part of an operator has its own blocks.
static_assert(kFp8BlockElements == kFlatAlignment);

struct TypeRow {
  ElementType type;
  int64_t bytes;
  const char* name;
  const char* safetensors;
};

// The names are part of the format on disk.
constexpr TypeRow kTypes[] = {
    {ElementType::kFp32, 4, "fp32", "F32"},  {ElementType::kFp64, 8, "fp64", "F64"},
    {ElementType::kBf16, 2, "bf16", "BF16"}, {ElementType::kFp16, 2, "fp16", "F16"},
    {ElementType::kFp8, 0, "fp8", "U8"},
};

const TypeRow& row(ElementType type) {
  const size_t index = static_cast<size_t>(type);
  CHECK(index < std::size(kTypes) && kTypes[index].type == type) << "type " << index;
  return kTypes[index];
}

}  // namespace

int64_t element_bytes(ElementType type) {
  CHECK(type != ElementType::kFp8) << "an element of a block has no bytes of its own";
  return row(type).bytes;
}

int64_t stored_bytes(ElementType type, int64_t elements) {
  if (type != ElementType::kFp8) return elements * element_bytes(type);
  CHECK(may_be_cut_at(type, elements)) << elements << " elements are no whole blocks";
  return elements / kFp8BlockElements * kFp8BlockBytes;
}

bool may_be_cut_at(ElementType type, int64_t element) {
  return type != ElementType::kFp8 || element % kFp8BlockElements == 0;
}

const char* to_string(ElementType type) { return row(type).name; }
const char* safetensors_name(ElementType type) { return row(type).safetensors; }

int64_t safetensors_elements(ElementType type, int64_t elements) {
  return type == ElementType::kFp8 ? stored_bytes(type, elements) : elements;
}

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

int64_t state_bytes(const PartTypes& types, int64_t elements) {
  int64_t bytes = 0;
  for (const ElementType type : types) bytes += stored_bytes(type, elements);
  return bytes;
}

std::string describe(const PartTypes& types) {
  const std::string master = to_string(type_of(types, StatePart::kMaster)),
                    first = to_string(type_of(types, StatePart::kExpAvg)),
                    second = to_string(type_of(types, StatePart::kExpAvgSq));
  if (types == same_types(types[0])) return "master weights and moments " + master;
  return absl::StrCat("master weights ", master, ", moments ", first,
                      first == second ? "" : " and " + second);
}

}  // namespace evermoe
