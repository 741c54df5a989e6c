#include "train/operator_shards.h"

#include <algorithm>
#include <cstring>

namespace evermoe {
namespace {

// The tensors never move: what is written to them is written in place.
std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  CHECK(tensor.is_cpu() && tensor.is_contiguous()) << "a shard that is not in host memory";
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

// Calls visit(part, begin, end, at) for every part that bytes [offset, offset + size) of the parts in a
// row touch: bytes [begin, end) of the part are those from `at` on of the range.
template <typename Visit>
void for_each_part(std::span<const std::span<std::byte>> parts, int64_t offset, size_t size, Visit visit) {
  int64_t first = 0;
  const int64_t last = offset + static_cast<int64_t>(size);
  for (size_t part = 0; part < parts.size(); ++part) {
    const auto length = static_cast<int64_t>(parts[part].size());
    const int64_t begin = std::clamp<int64_t>(offset - first, 0, length);
    const int64_t end = std::clamp<int64_t>(last - first, 0, length);
    if (begin < end) visit(part, begin, end, first + begin - offset);
    first += length;
  }
  CHECK(offset >= 0 && last <= first) << "bytes " << offset << " to " << last << " of a snapshot of " << first;
}

// An update moves 28 bytes of a parameter where a token makes 2 operations.
constexpr double kUpdateTokens = 32;

// Tokens of a step that add to a parameter's gradient. Parameters have equally many bytes.
double tokens_of(const OperatorSpec& spec, const JobConfig& config) {
  const auto tokens = static_cast<double>(config.train.micro_batches * config.train.micro_batch_size *
                                          config.model.sequence_length);
  switch (spec.kind) {
    case OperatorKind::kEmbedding: return 0;  // it only adds up rows
    case OperatorKind::kExpert:
      return tokens * static_cast<double>(config.model.top_k) / static_cast<double>(config.model.experts);
    default: return tokens;
  }
}

}  // namespace

OperatorShards::OperatorShards(const JobConfig& config, const StateTypes& types,
                               const std::vector<OperatorSpec>& stage, const std::vector<OperatorState*>& own) {
  const auto master_bytes = static_cast<int64_t>(c10::elementSize(types.master));
  const auto compute_bytes = static_cast<int64_t>(c10::elementSize(types.compute));
  size_t next = 0;
  int experts = 0;
  for (const OperatorSpec& spec : stage) {
    Shard shard;
    if (next < own.size() && own[next]->spec().name == spec.name) {
      shard.state = own[next++];
      shard.full = {bytes_of(shard.state->master()), bytes_of(shard.state->exp_avg()), bytes_of(shard.state->exp_avg_sq())};
      shard.compute = bytes_of(shard.state->shard_compute());
      shard.is_master_compute = shard.state->master().is_alias_of(shard.state->compute());
    }
    const auto size = [](Bytes bytes) { return static_cast<int64_t>(bytes.size()); };
    inventory_.push_back({.name = spec.name,
                          .bytes = {size(shard.full[0]) + size(shard.full[1]) + size(shard.full[2]), size(shard.compute)},
                          .whole = {3 * spec.flat_size * master_bytes, spec.flat_size * compute_bytes},
                          .expert = spec.kind == OperatorKind::kExpert ? experts++ : -1,
                          .tokens = tokens_of(spec, config),
                          .update_tokens = kUpdateTokens});
    shards_.push_back(shard);
  }
  CHECK(next == own.size()) << "operators of another stage, or in another order";
}

int OperatorShards::index_of(const OperatorState& state) const {
  const auto found = std::find_if(shards_.begin(), shards_.end(), [&](const Shard& s) { return s.state == &state; });
  CHECK(found != shards_.end()) << state.spec().name;
  return static_cast<int>(found - shards_.begin());
}

FlatRange OperatorShards::elements(const at::Tensor& part, int64_t begin, int64_t end) {
  const auto size = static_cast<int64_t>(part.element_size());
  return {begin / size, (end + size - 1) / size};
}

void OperatorShards::capture(int operator_index, SnapshotKind kind, int64_t offset, std::span<std::byte> into) const {
  const Shard& shard = shards_[static_cast<size_t>(operator_index)];
  const auto parts = kind == SnapshotKind::kFull ? std::span<const Bytes>(shard.full) : std::span<const Bytes>(&shard.compute, 1);
  for_each_part(parts, offset, into.size(), [&](size_t part, int64_t begin, int64_t end, int64_t at) {
    std::memcpy(into.data() + at, parts[part].data() + begin, static_cast<size_t>(end - begin));
  });
}

void OperatorShards::restore(int operator_index, SnapshotKind kind, int64_t offset, std::span<const std::byte> from) {
  const Shard& shard = shards_[static_cast<size_t>(operator_index)];
  OperatorState& state = *shard.state;
  const at::NoGradGuard no_grad;
  const auto narrow = [](const at::Tensor& tensor, FlatRange range) { return tensor.narrow(0, range.begin, range.size()); };
  if (kind == SnapshotKind::kFull) {
    for_each_part(shard.full, offset, from.size(), [&](size_t part, int64_t begin, int64_t end, int64_t at) {
      std::memcpy(shard.full[part].data() + begin, from.data() + at, static_cast<size_t>(end - begin));
      if (part != 0 || shard.is_master_compute) return;
      // An element that is cut in two is cast with either half; the last one is right.
      const FlatRange touched = elements(state.master(), begin, end);
      narrow(state.shard_compute(), touched).copy_(narrow(state.master(), touched));
    });
    return;
  }
  for_each_part({&shard.compute, 1}, offset, from.size(), [&](size_t, int64_t begin, int64_t end, int64_t at) {
    std::memcpy(shard.compute.data() + begin, from.data() + at, static_cast<size_t>(end - begin));
    const FlatRange touched = elements(state.compute(), begin, end);
    narrow(state.exp_avg(), touched).zero_();
    narrow(state.exp_avg_sq(), touched).zero_();
    if (!shard.is_master_compute) narrow(state.master(), touched).zero_();
  });
}

}  // namespace evermoe
