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

void copy_part(StatePart part, const at::Tensor& from, at::Tensor into) {
  const bool was_root = is_root(part, from.scalar_type()),
             is_now = is_root(part, into.scalar_type());
  if (is_now) {
    narrow_into(was_root ? widened(from) : widened(from).sqrt(), into, {.keeps_positive = true});
  } else if (was_root) {
    into.copy_(widened(from).to(into.scalar_type()).square());
  } else {
    copy_stored(from, into);
  }
}

namespace {

absl::Status read_part(CheckpointReader& checkpoint, const OperatorState& state, StatePart part,
                       const at::Tensor& storage) {
  HostWritable into(storage);
  RETURN_IF_ERROR(checkpoint.read(state.spec().name, part, state.shard(), into.bytes()));
  into.commit();
  return absl::OkStatus();
}

// A run may go on with other types than it was saved with.
absl::Status load_part(CheckpointReader& checkpoint, OperatorState& state, StatePart part) {
  const at::Tensor& into = part_of(state, part);
  const ElementType type = type_of(checkpoint.manifest().state_types, part);
  if (type == element_type(into.scalar_type())) return read_part(checkpoint, state, part, into);
  const at::Tensor stored = new_storage(type, state.shard().size(), into.device());
  RETURN_IF_ERROR(read_part(checkpoint, state, part, stored));
  copy_part(part, stored, into);
  return absl::OkStatus();
}

}  // namespace

absl::Status load_shards(CheckpointReader& checkpoint,
                         const std::vector<OperatorState*>& operators) {
  for (OperatorState* state : operators) {
    if (state->shard().size() == 0) continue;
    for (const StatePart part : kStateParts) RETURN_IF_ERROR(load_part(checkpoint, *state, part));
  }
  return absl::OkStatus();
}

}  // namespace evermoe
