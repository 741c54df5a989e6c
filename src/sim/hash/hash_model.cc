#include "sim/hash/hash_model.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "sim/hash/hash_mix.h"

namespace evermoe {
namespace {

// Sums of so many values stay exact in a double and inside int64.
constexpr uint64_t kSummable = (uint64_t{1} << 36) - 1;

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

// The compute weight of a master weight.
uint64_t cast_weight(uint64_t master) { return mix(master, 0xca57) & 0xffffffff; }

std::string name_of(HashModel::Part part, int expert) {
  switch (part) {
    case HashModel::Part::kBlock: return "block";
    case HashModel::Part::kGate: return "gate";
    case HashModel::Part::kExpert: return absl::StrCat("expert.", expert);
  }
  return "";
}

}  // namespace

HashModel::HashModel(Role role, int lanes, const HashModelOptions& options)
    : role_(role), lanes_(lanes), seed_(options.seed), experts_(options.experts) {
  for (int layer = 0; layer < options.layers_per_stage; ++layer) {
    add(Part::kBlock, layer, -1, options);
    add(Part::kGate, layer, -1, options);
    for (int e = 0; e < experts_; ++e) add(Part::kExpert, layer, e, options);
  }
  find_own_experts();
}

void HashModel::add(Part part, int layer, int expert, const HashModelOptions& options) {
  const int64_t owners = part == Part::kExpert ? 1 : lanes_;
  Operator op{.part = part, .layer = layer, .expert = expert};
  op.is_mine = !rests();
  op.compute.resize(static_cast<size_t>(owners));
  operators_.push_back(op);
  const OperatorBytes bytes = op.is_mine
                                  ? OperatorBytes{sizeof(Shard), sizeof(uint64_t), sizeof(uint64_t)}
                                  : OperatorBytes{};
  inventory_.push_back(
      {.name = absl::StrCat("stage.", role_.stage, ".layer.", layer, ".", name_of(part, expert)),
       .bytes = bytes,
       .whole = {owners * static_cast<int64_t>(sizeof(Shard)),
                 owners * static_cast<int64_t>(sizeof(uint64_t))},
       .expert = part == Part::kExpert ? layer * experts_ + expert : -1,
       .tokens = static_cast<double>(options.micro_batches)});
}

void HashModel::find_own_experts() {
  for (size_t i = 0; i < operators_.size(); ++i) {
    Operator& op = operators_[i];
    if (op.part != Part::kExpert) continue;
    op.is_mine = !rests() && lane_of(op.layer, op.expert) == role_.lane;
    if (!op.is_mine) op.shard = {};
    inventory_[i].bytes = op.is_mine
                              ? OperatorBytes{sizeof(Shard), sizeof(uint64_t), sizeof(uint64_t)}
                              : OperatorBytes{};
  }
}

void HashModel::take_position(const Position& position) {
  position_ = position;
  find_own_experts();
}

void HashModel::place(uint64_t placement) {
  position_.placement = placement;
  find_own_experts();
}

int HashModel::index_of(Part part, int layer, int expert) const {
  const int per_layer = 2 + experts_;
  return layer * per_layer + (part == Part::kBlock ? 0 : part == Part::kGate ? 1 : 2 + expert);
}

void HashModel::initialise() {
  take_position({});
  for (size_t i = 0; i < operators_.size(); ++i) {
    Operator& op = operators_[i];
    if (!op.is_mine) continue;
    const auto lane = static_cast<uint64_t>(op.part == Part::kExpert ? 0 : role_.lane);
    op.shard = {mix(seed_, role_.stage, i, lane), 0, 0};
  }
}

std::vector<std::byte> HashModel::state() const {
  std::vector<std::byte> state;
  const auto append = [&](std::span<const std::byte> part) {
    state.insert(state.end(), part.begin(), part.end());
  };
  append(bytes_of(position_));
  for (const Operator& op : operators_) append(bytes_of(op.shard));
  return state;
}

void HashModel::load(std::span<const std::byte> state) {
  CHECK(state.size() == sizeof(position_) + operators_.size() * sizeof(Shard))
      << "a state of another model";
  std::memcpy(&position_, state.data(), sizeof(position_));
  find_own_experts();
  for (size_t i = 0; i < operators_.size(); ++i) {
    std::memcpy(&operators_[i].shard, state.data() + sizeof(position_) + i * sizeof(Shard),
                sizeof(Shard));
  }
}

void HashModel::cast_own() {
  for (Operator& op : operators_) {
    if (op.is_mine) op.compute[own_word(op)] = cast_weight(op.shard.master);
  }
}

void HashModel::capture(int index, SnapshotKind kind, int64_t offset,
                        std::span<std::byte> into) const {
  const Operator& op = operators_[static_cast<size_t>(index)];
  const auto from = kind == SnapshotKind::kFull          ? bytes_of(op.shard)
                    : kind == SnapshotKind::kComputeOnly ? bytes_of(op.compute[own_word(op)])
                                                         : bytes_of(op.gradient);
  std::memcpy(into.data(), from.data() + offset, into.size());
}

void HashModel::restore(int index, SnapshotKind kind, int64_t offset,
                        std::span<const std::byte> from) {
  Operator& op = at(index);
  uint64_t& compute = op.compute[own_word(op)];
  if (kind == SnapshotKind::kGradients) {
    std::memcpy(reinterpret_cast<std::byte*>(&op.gradient) + offset, from.data(), from.size());
  } else if (kind == SnapshotKind::kFull) {
    std::memcpy(reinterpret_cast<std::byte*>(&op.shard) + offset, from.data(), from.size());
    compute = cast_weight(op.shard.master);
  } else {
    std::memcpy(reinterpret_cast<std::byte*>(&compute) + offset, from.data(), from.size());
    op.shard = {};  // stale values must not help
  }
}

uint64_t HashModel::weights(int index) const {
  uint64_t value = 0;
  for (const uint64_t word : operators_[static_cast<size_t>(index)].compute)
    value = mix(value, word);
  return value;
}

void HashModel::clear_gradients() {
  for (Operator& op : operators_) op.gradient = 0;
}

void HashModel::accumulate(int index, uint64_t gradient) {
  at(index).gradient += gradient & kSummable;
}

void HashModel::update(int index) {
  Operator& op = at(index);
  Shard& s = op.shard;
  s.first_moment = mix(s.first_moment, op.gradient);
  s.second_moment = mix(s.second_moment, op.gradient, 2);
  s.master = mix(s.master, s.first_moment, s.second_moment, position_.history, position_.updates);
  op.compute[own_word(op)] = cast_weight(s.master);
}

}  // namespace evermoe
