// The first difference between two checkpoints, for people.
#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "checkpoint/format/casts.h"
#include "checkpoint/format/narrowing.h"
#include "checkpoint/read/checkpoint_reader.h"

namespace evermoe {
namespace {

using Difference = std::optional<CheckpointDifference>;

// Of element `index` of a block: its code and the block's scale make the value.
std::string block_element_text(const std::byte* block, size_t index) {
  float values[kFp8BlockElements];
  widen_elements(ElementType::kFp8, {block, kFp8BlockBytes}, values);
  return absl::StrFormat("%.9g (0x%02x, scale 0x%02x)", values[index],
                         static_cast<unsigned>(block[index]),
                         static_cast<unsigned>(block[kFp8BlockElements]));
}

// "1.5 (0x3fc00000)": two values may print alike.
std::string element_text(ElementType type, const std::byte* at) {
  uint64_t bits = 0;
  std::memcpy(&bits, at, static_cast<size_t>(element_bytes(type)));
  double value = 0;
  switch (type) {
    case ElementType::kFp32: value = std::bit_cast<float>(static_cast<uint32_t>(bits)); break;
    case ElementType::kFp64: value = std::bit_cast<double>(bits); break;
    case ElementType::kBf16: value = float_from_bf16(static_cast<uint16_t>(bits)); break;
    case ElementType::kFp16: value = float_from_fp16(static_cast<uint16_t>(bits)); break;
    case ElementType::kFp8: break;
  }
  return absl::StrFormat("%.9g (0x%0*x)", value, static_cast<int>(2 * element_bytes(type)), bits);
}

template <typename Value>
Difference differing(const char* where, const Value& first, const Value& second) {
  if (first == second) return std::nullopt;
  return CheckpointDifference{where, absl::StrCat(first), absl::StrCat(second)};
}

// Everything but the operators' contents.
Difference scalar_difference(const Manifest& a, const Manifest& b) {
  const TrainingPosition& first = a.position;
  const TrainingPosition& second = b.position;
  const std::string types[] = {describe(a.state_types), describe(b.state_types),
                               to_string(a.compute_type), to_string(b.compute_type)};
  for (const Difference& difference :
       {differing("step", first.step.value, second.step.value),
        differing("samples", first.samples, second.samples),
        differing("updates applied", first.updates_applied, second.updates_applied),
        differing("loss scale", first.loss_scale, second.loss_scale),
        differing("loss scale good steps", first.loss_scale_good_steps,
                  second.loss_scale_good_steps),
        differing("state types", types[0], types[1]),
        differing("compute type", types[2], types[3])}) {
    if (difference) return difference;
  }
  return std::nullopt;
}

// Where a shard of either checkpoint begins or ends: between two neighbours a read touches one
// shard of each.
std::set<int64_t> cuts(const ManifestOperator& a, const ManifestOperator& b) {
  std::set<int64_t> result = {0, a.flat_size};
  for (const ManifestOperator* op : {&a, &b}) {
    for (const ManifestShard& shard : op->shards) result.insert(shard.range.begin);
  }
  return result;
}

absl::StatusOr<Difference> range_difference(CheckpointReader& a, CheckpointReader& b,
                                            const std::string& name, StatePart part,
                                            FlatRange range) {
  const ElementType type = type_of(a.manifest().state_types, part);
  std::vector<std::byte> first(static_cast<size_t>(stored_bytes(type, range.size())));
  std::vector<std::byte> second(first.size());
  RETURN_IF_ERROR(a.read(name, part, range, first));
  RETURN_IF_ERROR(b.read(name, part, range, second));
  const auto at = std::mismatch(first.begin(), first.end(), second.begin()).first;
  if (at == first.end()) return Difference();
  const auto byte = static_cast<size_t>(at - first.begin());
  const auto where = [&](size_t element) {
    return absl::StrCat(name, " ", to_string(part), " element ",
                        range.begin + static_cast<int64_t>(element));
  };
  if (type == ElementType::kFp8) {
    const size_t block = byte / kFp8BlockBytes, in_block = byte % kFp8BlockBytes;
    const size_t index = in_block == kFp8BlockElements ? 0 : in_block;  // the scale is of them all
    return CheckpointDifference{where(block * kFp8BlockElements + index),
                                block_element_text(&first[block * kFp8BlockBytes], index),
                                block_element_text(&second[block * kFp8BlockBytes], index)};
  }
  const auto unit = static_cast<size_t>(element_bytes(type));
  const size_t index = byte / unit;
  return CheckpointDifference{where(index), element_text(type, &first[index * unit]),
                              element_text(type, &second[index * unit])};
}

absl::StatusOr<Difference> operator_difference(CheckpointReader& a, CheckpointReader& b,
                                               const ManifestOperator& first,
                                               const ManifestOperator& second) {
  const Difference size =
      differing(absl::StrCat(first.name, " elements").c_str(), first.flat_size, second.flat_size);
  if (size) return size;
  const std::set<int64_t> points = cuts(first, second);
  for (StatePart part : kStateParts) {
    for (auto from = points.begin(), to = std::next(from); to != points.end(); ++from, ++to) {
      ASSIGN_OR_RETURN(const Difference found,
                       range_difference(a, b, first.name, part, {*from, *to}));
      if (found) return found;
    }
  }
  return Difference();
}

}  // namespace

absl::StatusOr<std::optional<CheckpointDifference>> first_difference(CheckpointReader& a,
                                                                     CheckpointReader& b) {
  const Difference scalar = scalar_difference(a.manifest(), b.manifest());
  if (scalar) return scalar;
  const auto& first = a.manifest().operators;
  const auto& second = b.manifest().operators;
  for (size_t i = 0; i < std::max(first.size(), second.size()); ++i) {
    const std::string left = i < first.size() ? first[i].name : "none";
    const std::string right = i < second.size() ? second[i].name : "none";
    const Difference name = differing(absl::StrCat("operator ", i).c_str(), left, right);
    if (name) return name;
    ASSIGN_OR_RETURN(const Difference found, operator_difference(a, b, first[i], second[i]));
    if (found) return found;
  }
  return Difference();
}

}  // namespace evermoe
