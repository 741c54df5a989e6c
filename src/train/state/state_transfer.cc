#include "train/state/state_transfer.h"

#include <cstring>

#include "base/error.h"
#include "tensor/host_bytes.h"

namespace evermoe {
at::Tensor& part_of(OperatorState& state, StatePart part) {
  switch (part) {
    case StatePart::kMaster: return state.master();
    case StatePart::kExpAvg: return state.exp_avg();
    case StatePart::kExpAvgSq: return state.exp_avg_sq();
  }
  CHECK(false) << "state part";
  __builtin_unreachable();
}

ElementType element_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return ElementType::kFp32;
    case at::kDouble: return ElementType::kFp64;
    case at::kBFloat16: return ElementType::kBf16;
    case at::kHalf: return ElementType::kFp16;
    default: CHECK(false) << "element type " << static_cast<int>(type);
  }
  __builtin_unreachable();
}

std::vector<ShardSource> shard_sources(const std::vector<OperatorState*>& operators) {
  std::vector<ShardSource> sources;
  for (OperatorState* state : operators) {
    if (state->shard().size() == 0) continue;
    ShardSource source;
    source.operator_name = state->spec().name;
    source.flat_size = state->spec().flat_size;
    source.range = state->shard();
    source.copy = [state](StatePart part, std::span<std::byte> into) {
      const HostReadable from(part_of(*state, part));
      CHECK(from.bytes().size() == into.size());
      std::memcpy(into.data(), from.bytes().data(), into.size());
    };
    source.compute_fingerprint = [state] {
      return fingerprint(HostReadable(state->shard_compute()).bytes());
    };
    sources.push_back(std::move(source));
  }
  return sources;
}

absl::Status load_shards(CheckpointReader& checkpoint,
                         const std::vector<OperatorState*>& operators) {
  for (OperatorState* state : operators) {
    if (state->shard().size() == 0) continue;
    for (const StatePart part : kStateParts) {
      HostWritable into(part_of(*state, part));
      RETURN_IF_ERROR(checkpoint.read(state->spec().name, part, state->shard(), into.bytes()));
      into.commit();
    }
  }
  return absl::OkStatus();
}

}  // namespace evermoe
