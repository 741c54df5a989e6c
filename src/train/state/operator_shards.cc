#include "train/state/operator_shards.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "tensor/host_bytes.h"

namespace evermoe {
namespace {

int64_t size_of(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<int64_t>(tensor.nbytes()) : 0;
}

// Calls visit(section, begin, end, at) for every section that bytes [offset, offset + size) of the
// sections in a row touch: bytes [begin, end) of the section are those from `at` on of the range.
template <typename Visit>
void for_each_section(std::span<const at::Tensor> sections, int64_t offset, size_t size,
                      Visit visit) {
  int64_t first = 0;
  const int64_t last = offset + static_cast<int64_t>(size);
  for (size_t section = 0; section < sections.size(); ++section) {
    const auto length = size_of(sections[section]);
    const int64_t begin = std::clamp<int64_t>(offset - first, 0, length);
    const int64_t end = std::clamp<int64_t>(last - first, 0, length);
    if (begin < end) visit(section, begin, end, first + begin - offset);
    first += length;
  }
  CHECK(offset >= 0 && last <= first)
      << "bytes " << offset << " to " << last << " of a snapshot of " << first;
}

std::span<const std::byte> piece(std::span<const std::byte> bytes, int64_t begin, int64_t size) {
  return bytes.subspan(static_cast<size_t>(begin), static_cast<size_t>(size));
}

// The parameters of the aligned blocks that bytes [begin, end) of storage touch.
FlatRange touched_blocks(const at::Tensor& storage, int64_t begin, int64_t end) {
  const int64_t bytes = storage_size(storage.scalar_type(), kFlatAlignment) *
                        static_cast<int64_t>(storage.element_size());
  return {kFlatAlignment * (begin / bytes), kFlatAlignment * ((end + bytes - 1) / bytes)};
}

// An update moves 28 bytes of a parameter where a token makes 2 operations.
constexpr double kUpdateTokens = 32;

// Tokens of a step that add to a parameter's gradient. Parameters have equally many bytes.
double tokens_of(const OperatorSpec& spec, const JobConfig& config) {
  const auto tokens = static_cast<double>(
      config.train.micro_batches * config.train.micro_batch_size * config.model.sequence_length);
  switch (spec.kind) {
    case OperatorKind::kEmbedding: return 0;  // it only adds up rows
    case OperatorKind::kExpert:
      return tokens * static_cast<double>(config.model.top_k) /
             static_cast<double>(config.model.experts);
    default: return tokens;
  }
}

// That hold the operator, if it is an expert.
int lanes_of(const OperatorSpec& spec, const LayerPlacements& placements) {
  const auto placement = placements.find(spec.layer);
  if (spec.kind != OperatorKind::kExpert || placement == placements.end()) return 1;
  return static_cast<int>(placement->second.lanes_of(spec.expert).size());
}

int64_t elements_of(const std::vector<OperatorSpec>& operators) {
  int64_t elements = 0;
  for (const OperatorSpec& spec : operators) elements += spec.flat_size;
  return elements;
}

}  // namespace

OperatorShards::Shard OperatorShards::shard_of(OperatorState& state, FlatRange range) {
  const FlatRange own = state.in_shard(range);
  return {.state = &state,
          .range = range,
          .master = stored_range(state.master(), own),
          .exp_avg = stored_range(state.exp_avg(), own),
          .exp_avg_sq = stored_range(state.exp_avg_sq(), own),
          .compute = stored_range(state.shard_compute(), own),
          .gradient = stored_range(state.shard_gradient(), own),
          .is_master_compute = state.master().is_alias_of(state.compute())};
}

OperatorShards::OperatorShards(const JobConfig& config, const StateTypes& types,
                               const std::vector<OperatorSpec>& stage,
                               const LayerPlacements& placements,
                               const std::vector<OperatorState*>& own) {
  const TrainTypes& stored = types.stored;
  const int64_t part_bytes =
      resolve_part_bytes(config.protection.part_bytes, stored.full_bytes(elements_of(stage)));
  size_t held = 0;  // operators of this rank up to the one at hand
  int experts = 0;  // of the stage, likewise
  for (const OperatorPart& part :
       cut_operators(stage, stored.full_bytes(kFlatAlignment), part_bytes)) {
    const OperatorSpec& spec = stage[part.operator_index];
    const bool is_expert = spec.kind == OperatorKind::kExpert;
    if (part.range.begin == 0) {
      if (held < own.size() && own[held]->spec().name == spec.name) ++held;
      if (is_expert) ++experts;
    }
    const bool is_held = held > 0 && own[held - 1]->spec().name == spec.name;
    const Shard shard = is_held ? shard_of(*own[held - 1], part.range) : Shard{.range = part.range};
    inventory_.push_back(
        {.name = part.name,
         .bytes = {size_of(shard.master) + size_of(shard.exp_avg) + size_of(shard.exp_avg_sq),
                   size_of(shard.compute), size_of(shard.gradient)},
         .whole = {stored.full_bytes(part.range.size()), stored.compute_bytes(part.range.size()),
                   stored.sum_bytes(part.range.size())},
         .expert = is_expert ? experts - 1 : -1,
         .lanes = lanes_of(spec, placements),
         .tokens = tokens_of(spec, config),
         .update_tokens = kUpdateTokens});
    if (is_held) first_part_.try_emplace(shard.state, shards_.size());
    shards_.push_back(shard);
  }
  CHECK(held == own.size()) << "operators of another stage, or in another order";
}

int OperatorShards::index_of(const OperatorState& state, FlatRange range) const {
  size_t part = first_part_.at(&state);
  while (part < shards_.size() && shards_[part].state == &state &&
         shards_[part].range.begin < range.begin)
    ++part;
  CHECK(part < shards_.size() && shards_[part].state == &state && shards_[part].range == range)
      << state.spec().name << " from element " << range.begin;
  return static_cast<int>(part);
}

std::vector<int> OperatorShards::active_parts_of(const OperatorState& state) const {
  std::vector<int> parts;
  for (const FlatRange range : state.active()) parts.push_back(index_of(state, range));
  return parts;
}

std::vector<OperatorState*> OperatorShards::states_of(
    const std::vector<int>& operator_indices) const {
  std::vector<OperatorState*> states;
  absl::flat_hash_set<OperatorState*> seen;
  for (const int i : operator_indices) {
    if (state(i) != nullptr && seen.insert(state(i)).second) states.push_back(state(i));
  }
  return states;
}

void OperatorShards::set_active(const ActiveOperators& active) {
  CHECK(active.size() == shards_.size()) << active.size() << " operators";
  std::vector<FlatRange> ranges;
  for (size_t i = 0; i < shards_.size(); ++i) {
    OperatorState* const state = shards_[i].state;
    if (state == nullptr) continue;
    if (active[i]) ranges.push_back(shards_[i].range);
    const bool is_last_part = i + 1 == shards_.size() || shards_[i + 1].state != state;
    if (is_last_part) state->set_active(std::exchange(ranges, {}));
  }
}

template <typename Copy>
void OperatorShards::visit_pieces(int operator_index, SnapshotKind kind, int64_t offset,
                                  std::span<std::byte> into, Copy copy) const {
  const Shard& shard = shards_[static_cast<size_t>(operator_index)];
  std::vector<at::Tensor> sections;
  switch (kind) {
    case SnapshotKind::kFull: sections = {shard.master, shard.exp_avg, shard.exp_avg_sq}; break;
    case SnapshotKind::kComputeOnly: sections = {shard.compute}; break;
    case SnapshotKind::kGradients: sections = {shard.gradient}; break;
  }
  for_each_section(sections, offset, into.size(),
                   [&](size_t section, int64_t begin, int64_t end, int64_t at) {
                     copy(sections[section], begin,
                          into.subspan(static_cast<size_t>(at), static_cast<size_t>(end - begin)));
                   });
}

void OperatorShards::capture(int operator_index, SnapshotKind kind, int64_t offset,
                             std::span<std::byte> into) const {
  visit_pieces(operator_index, kind, offset, into, copy_to_host);
}

void OperatorShards::begin_capture(int operator_index, SnapshotKind kind, int64_t offset,
                                   std::span<std::byte> into, CopyToHost& copy) const {
  visit_pieces(operator_index, kind, offset, into,
               [&](const at::Tensor& from, int64_t begin, std::span<std::byte> piece) {
                 copy.add(from, begin, piece);
               });
}

void OperatorShards::restore(int operator_index, SnapshotKind kind, int64_t offset,
                             std::span<const std::byte> from) {
  const Shard& shard = shards_[static_cast<size_t>(operator_index)];
  const at::NoGradGuard no_grad;
  switch (kind) {
    case SnapshotKind::kFull: return restore_full(shard, offset, from);
    case SnapshotKind::kComputeOnly: return restore_compute(shard, offset, from);
    case SnapshotKind::kGradients: return restore_gradient(shard, offset, from);
  }
}

void OperatorShards::restore_gradient(const Shard& shard, int64_t offset,
                                      std::span<const std::byte> from) {
  for_each_section(std::span(&shard.gradient, 1), offset, from.size(),
                   [&](size_t, int64_t begin, int64_t end, int64_t at) {
                     copy_from_host(piece(from, at, end - begin), shard.gradient, begin);
                   });
}

void OperatorShards::restore_full(const Shard& shard, int64_t offset,
                                  std::span<const std::byte> from) {
  const std::array sections = {shard.master, shard.exp_avg, shard.exp_avg_sq};
  for_each_section(
      sections, offset, from.size(), [&](size_t section, int64_t begin, int64_t end, int64_t at) {
        copy_from_host(piece(from, at, end - begin), sections[section], begin);
        if (section != 0 || shard.is_master_compute) return;
        // A block that is cut in two is cast with either half; the last one is
        // right.
        const FlatRange touched = touched_blocks(shard.master, begin, end);
        copy_stored(stored_range(shard.master, touched), stored_range(shard.compute, touched));
      });
}

void OperatorShards::restore_compute(const Shard& shard, int64_t offset,
                                     std::span<const std::byte> from) {
  for_each_section(std::span(&shard.compute, 1), offset, from.size(),
                   [&](size_t, int64_t begin, int64_t end, int64_t at) {
                     copy_from_host(piece(from, at, end - begin), shard.compute, begin);
                     const FlatRange touched = touched_blocks(shard.compute, begin, end);
                     stored_range(shard.exp_avg, touched).zero_();
                     stored_range(shard.exp_avg_sq, touched).zero_();
                     if (!shard.is_master_compute) stored_range(shard.master, touched).zero_();
                   });
}

}  // namespace evermoe
