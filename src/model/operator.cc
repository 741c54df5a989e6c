#include "model/operator.h"

#include <algorithm>

#include "base/check.h"

namespace evermoe {
namespace {

int64_t align_up(int64_t elements) {
  return (elements + kFlatAlignment - 1) / kFlatAlignment * kFlatAlignment;
}

}  // namespace

const char* to_string(OperatorKind kind) {
  switch (kind) {
    case OperatorKind::kEmbedding: return "embedding";
    case OperatorKind::kBlock: return "block";
    case OperatorKind::kGate: return "gate";
    case OperatorKind::kExpert: return "expert";
    case OperatorKind::kHead: return "head";
  }
  return "unknown";
}

int64_t ParameterSpec::numel() const {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

void OperatorSpec::layout() {
  std::stable_partition(parameters.begin(), parameters.end(),
                        [](const ParameterSpec& p) { return p.decayed; });
  flat_size = 0;
  decayed_size = 0;
  for (ParameterSpec& parameter : parameters) {
    parameter.offset = flat_size;
    flat_size += align_up(parameter.numel());
    if (parameter.decayed) decayed_size = flat_size;
  }
}

int64_t OperatorSpec::parameter_count() const {
  int64_t count = 0;
  for (const ParameterSpec& parameter : parameters) count += parameter.numel();
  return count;
}

FlatRange shard_range(int64_t flat_size, int owner_count, int index) {
  CHECK(flat_size % kFlatAlignment == 0 && owner_count > 0 && index >= 0 && index < owner_count)
      << "flat_size=" << flat_size << " owner_count=" << owner_count << " index=" << index;
  const int64_t blocks = flat_size / kFlatAlignment;
  return {kFlatAlignment * (blocks * index / owner_count),
          kFlatAlignment * (blocks * (index + 1) / owner_count)};
}

}  // namespace evermoe
