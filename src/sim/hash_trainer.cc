#include "sim/hash_trainer.h"

#include <array>
#include <cstring>
#include <deque>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/fault_point.h"

namespace evermoe {
namespace {

// The finaliser of SplitMix64: a good and fast mixing of 64 bits.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

template <typename... Rest>
uint64_t mix(uint64_t first, Rest... rest) {
  return mix(first ^ (mix(static_cast<uint64_t>(rest)...) * 3));
}

// Sums of so many values stay exact in a double and inside int64.
constexpr uint64_t kSummable = (uint64_t{1} << 36) - 1;

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

Step SimulatedDisk::newest(int world_size) const {
  for (auto at = files_.rbegin(); at != files_.rend(); ++at) {
    if (static_cast<int>(at->second.size()) == world_size) return at->first;
  }
  return Step(-1);
}

HashTrainer::HashTrainer(const Topology& topology, Transport& transport, SimulatedDisk& disk,
                         const HashModelOptions& options)
    : topology_(topology),
      transport_(transport),
      disk_(disk),
      options_(options),
      role_(topology.role_of(transport.rank())),
      lanes_(topology.lanes(role_.stage)),
      stage_group_(transport, topology.stage_group(role_.stage),
                   {View(0), kFirstStageGroup, absl::Minutes(10)}) {
  std::vector<int> widths;
  for (int s = 0; s < topology.stages(); ++s) widths.push_back(topology.lanes(s));
  order_ = pipeline_schedule(widths, options_.micro_batches)[static_cast<size_t>(role_.stage)];
  const auto add = [&](Part part, int layer, int expert, const std::string& name) {
    Operator op{.part = part, .layer = layer, .expert = expert};
    op.is_mine = part != Part::kExpert || expert % lanes_ == role_.lane;
    op.compute.resize(part == Part::kExpert ? 1 : static_cast<size_t>(lanes_));
    operators_.push_back(op);
    const OperatorBytes bytes =
        op.is_mine ? OperatorBytes{sizeof(Shard), sizeof(uint64_t)} : OperatorBytes{};
    const int64_t owners = part == Part::kExpert ? 1 : lanes_;
    inventory_.push_back({.name = absl::StrCat("stage.", role_.stage, ".layer.", layer, ".", name),
                          .bytes = bytes,
                          .whole = {owners * static_cast<int64_t>(sizeof(Shard)),
                                    owners * static_cast<int64_t>(sizeof(uint64_t))},
                          .expert = part == Part::kExpert ? layer * options_.experts + expert : -1,
                          .tokens = static_cast<double>(options_.micro_batches)});
  };
  for (int layer = 0; layer < options_.layers_per_stage; ++layer) {
    add(Part::kBlock, layer, -1, "block");
    add(Part::kGate, layer, -1, "gate");
    for (int e = 0; e < options_.experts; ++e)
      add(Part::kExpert, layer, e, absl::StrCat("expert.", e));
  }
}

void HashTrainer::join_stage(View epoch) { stage_group_.restart(epoch); }

uint64_t HashTrainer::cast(uint64_t master) { return mix(master, 0xca57) & 0xffffffff; }

uint64_t HashTrainer::weights_of(const Operator& op) const {
  uint64_t value = 0;
  for (const uint64_t word : op.compute) value = mix(value, word);
  return value;
}

int HashTrainer::index_of(Part part, int layer, int expert) const {
  const int per_layer = 2 + options_.experts;
  return layer * per_layer + (part == Part::kBlock ? 0 : part == Part::kGate ? 1 : 2 + expert);
}

// ---- state

void HashTrainer::initialise() {
  position_ = {};
  for (size_t i = 0; i < operators_.size(); ++i) {
    Operator& op = operators_[i];
    if (!op.is_mine) continue;
    const auto lane = static_cast<uint64_t>(op.part == Part::kExpert ? 0 : role_.lane);
    op.shard = {mix(options_.seed, role_.stage, i, lane), 0, 0};
  }
}

std::vector<std::byte> HashTrainer::whole_state() const {
  std::vector<std::byte> state;
  const auto append = [&](std::span<const std::byte> part) {
    state.insert(state.end(), part.begin(), part.end());
  };
  append(bytes_of(position_));
  for (const Operator& op : operators_) append(bytes_of(op.shard));
  return state;
}

absl::Status HashTrainer::load(std::span<const std::byte> state) {
  CHECK(state.size() == sizeof(position_) + operators_.size() * sizeof(Shard))
      << "a state of another model";
  std::memcpy(&position_, state.data(), sizeof(position_));
  for (size_t i = 0; i < operators_.size(); ++i) {
    std::memcpy(&operators_[i].shard, state.data() + sizeof(position_) + i * sizeof(Shard),
                sizeof(Shard));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> HashTrainer::resume(Communicator& world) {
  int64_t newest[] = {disk_.newest(topology_.world_size()).value};
  RETURN_IF_ERROR(world.all_reduce<int64_t>(newest, ReduceOp::kMin));
  RETURN_IF_ERROR(restore_base(Step(std::max<int64_t>(newest[0], 0))));
  return absl::StrCat(newest[0] < 0 ? "initial state" : "durable checkpoint of step ",
                      position_.step);
}

void HashTrainer::forget_base() {
  if (transport_.rank() == Rank(0)) disk_.remove_before(disk_.newest(topology_.world_size()));
}

absl::Status HashTrainer::restore_base(Step base) {
  if (base > Step(0)) {
    RETURN_IF_ERROR(load(disk_.read(base, transport_.rank())));
    saved_ = base.value;
  } else {
    initialise();
  }
  std::vector<int> all(operators_.size());
  std::iota(all.begin(), all.end(), 0);
  for (Operator& op : operators_) {
    if (op.is_mine)
      op.compute[op.part == Part::kExpert ? 0 : static_cast<size_t>(role_.lane)] =
          cast(op.shard.master);
  }
  return gather(all);
}

void HashTrainer::capture(int operator_index, SnapshotKind kind, int64_t offset,
                          std::span<std::byte> into) const {
  const Operator& op = operators_[static_cast<size_t>(operator_index)];
  if (kind == SnapshotKind::kFull) {
    std::memcpy(into.data(), bytes_of(op.shard).data() + offset, into.size());
    return;
  }
  const uint64_t compute =
      op.compute[op.part == Part::kExpert ? 0 : static_cast<size_t>(role_.lane)];
  std::memcpy(into.data(), bytes_of(compute).data() + offset, into.size());
}

void HashTrainer::restore(int operator_index, SnapshotKind kind, int64_t offset,
                          std::span<const std::byte> from) {
  Operator& op = operators_[static_cast<size_t>(operator_index)];
  uint64_t& compute = op.compute[op.part == Part::kExpert ? 0 : static_cast<size_t>(role_.lane)];
  if (kind == SnapshotKind::kFull) {
    std::memcpy(reinterpret_cast<std::byte*>(&op.shard) + offset, from.data(), from.size());
    compute = cast(op.shard.master);
  } else {
    std::memcpy(reinterpret_cast<std::byte*>(&compute) + offset, from.data(), from.size());
    op.shard = {};  // stale values must not help
  }
}

absl::Status HashTrainer::complete_restore(const std::vector<int>& operator_indices) {
  return gather(operator_indices);
}

absl::Status HashTrainer::gather(const std::vector<int>& operator_indices) {
  for (const int i : operator_indices) {
    Operator& op = operators_[static_cast<size_t>(i)];
    if (op.part == Part::kExpert) continue;
    std::vector<int64_t> begins;
    for (int lane = 0; lane <= lanes_; ++lane)
      begins.push_back(lane * static_cast<int64_t>(sizeof(uint64_t)));
    RETURN_IF_ERROR(stage_group_.all_gather(std::as_writable_bytes(std::span(op.compute)), begins));
  }
  return absl::OkStatus();
}

RecordBytes HashTrainer::position() const {
  const auto bytes = bytes_of(position_);
  return {bytes.begin(), bytes.end()};
}

absl::Status HashTrainer::set_position(const RecordBytes& position) {
  if (position.size() != sizeof(position_)) return Corrupt("not a position");
  std::memcpy(&position_, position.data(), sizeof(position_));
  return absl::OkStatus();
}

Fingerprint HashTrainer::digest() const { return fingerprint(whole_state()); }

// ---- work

std::optional<int> HashTrainer::micro_batch_of(int round) const {
  const int index = round * lanes_ + role_.lane;
  return index < options_.micro_batches ? std::optional(index) : std::nullopt;
}

void HashTrainer::expect(const RoundOperation& operation, Boundary& boundary) {
  const bool is_forward = operation.kind == RoundOperation::Kind::kForward;
  const auto direction = is_forward ? BoundaryDirection::kActivation : BoundaryDirection::kGradient;
  const int stage = role_.stage + (is_forward ? -1 : 1);
  const auto micro_batch = micro_batch_of(operation.round);
  if (!micro_batch || stage < 0 || stage >= topology_.stages()) return;
  const auto message = std::make_shared<Message>();
  expected_[{direction, *micro_batch}] = message;
  const Rank from = topology_.rank_of({stage, *micro_batch % topology_.lanes(stage)});
  boundary.expect(from, direction, MicroBatch(*micro_batch),
                  std::as_writable_bytes(std::span(*message)), message);
}

absl::StatusOr<uint64_t> HashTrainer::receive(int stage, BoundaryDirection direction,
                                              int micro_batch, Boundary& boundary) {
  const auto expected = expected_.extract({direction, micro_batch});
  const std::shared_ptr<Message> message =
      expected ? expected.mapped() : std::make_shared<Message>();
  const Rank from = topology_.rank_of({stage, micro_batch % topology_.lanes(stage)});
  RETURN_IF_ERROR(boundary.receive(from, direction, MicroBatch(micro_batch),
                                   std::as_writable_bytes(std::span(*message))));
  uint64_t value = 0;
  for (const uint64_t word : *message) value = mix(value, word);
  return value;
}

absl::Status HashTrainer::send(int stage, BoundaryDirection direction, int micro_batch,
                               uint64_t value, Boundary& boundary) {
  auto message = std::make_shared<Message>();
  for (uint64_t& word : *message) word = value = mix(value);
  const Rank to = topology_.rank_of({stage, micro_batch % topology_.lanes(stage)});
  return boundary.send(to, direction, MicroBatch(micro_batch),
                       {std::as_bytes(std::span(*message)), message});
}

absl::StatusOr<std::vector<uint64_t>> HashTrainer::exchange(const std::vector<uint64_t>& words) {
  std::vector<uint64_t> received(words.size());
  std::vector<std::span<const std::byte>> sends;
  std::vector<std::span<std::byte>> receives;
  for (size_t lane = 0; lane < words.size(); ++lane) {
    sends.push_back(std::as_bytes(std::span(&words[lane], 1)));
    receives.push_back(std::as_writable_bytes(std::span(&received[lane], 1)));
  }
  RETURN_IF_ERROR(stage_group_.all_to_all(sends, receives));
  return received;
}

absl::StatusOr<HashTrainer::Graph> HashTrainer::forward(uint64_t sample,
                                                        std::optional<int> micro_batch,
                                                        Boundary& boundary) {
  Graph graph;
  graph.is_real = micro_batch.has_value();
  uint64_t value = 0;
  if (graph.is_real && role_.stage == 0) {
    value = sample;
  } else if (graph.is_real) {
    ASSIGN_OR_RETURN(
        value, receive(role_.stage - 1, BoundaryDirection::kActivation, *micro_batch, boundary));
  }
  for (int layer = 0; layer < options_.layers_per_stage; ++layer) {
    graph.layer_inputs.push_back(value);
    value =
        mix(value, weights_of(operators_[static_cast<size_t>(index_of(Part::kBlock, layer, -1))]));
    const uint64_t gate =
        mix(value, weights_of(operators_[static_cast<size_t>(index_of(Part::kGate, layer, -1))]));
    const int choice = static_cast<int>(gate % static_cast<uint64_t>(options_.experts));
    graph.gate_choices.push_back(choice);
    // A token to its expert's lane, with the expert's number in the low bits; zero: no token.
    std::vector<uint64_t> to_experts(static_cast<size_t>(lanes_));
    if (graph.is_real)
      to_experts[static_cast<size_t>(choice % lanes_)] =
          (value | 0xffff) - 0xffff + static_cast<uint64_t>(choice) + 1;
    ASSIGN_OR_RETURN(const std::vector<uint64_t> tokens, exchange(to_experts));
    std::vector<uint64_t> results;
    for (const uint64_t token : tokens) {
      if (token == 0) {
        results.push_back(0);
        continue;
      }
      const int expert = static_cast<int>(token & 0xffff) - 1;
      results.push_back(
          mix(token,
              weights_of(operators_[static_cast<size_t>(index_of(Part::kExpert, layer, expert))])));
    }
    ASSIGN_OR_RETURN(const std::vector<uint64_t> back, exchange(results));
    value = mix(value, gate, back[static_cast<size_t>(choice % lanes_)]);
  }
  graph.output = value;
  if (graph.is_real && role_.stage + 1 < topology_.stages()) {
    RETURN_IF_ERROR(
        send(role_.stage + 1, BoundaryDirection::kActivation, *micro_batch, value, boundary));
  }
  return graph;
}

absl::Status HashTrainer::backward(const Graph& graph, std::optional<int> micro_batch,
                                   const ActiveOperators& active, Boundary& boundary) {
  uint64_t gradient = 0;
  const bool is_last = role_.stage + 1 == topology_.stages();
  if (graph.is_real && !is_last) {
    ASSIGN_OR_RETURN(
        gradient, receive(role_.stage + 1, BoundaryDirection::kGradient, *micro_batch, boundary));
  } else if (graph.is_real) {
    gradient = mix(graph.output, 0x1055);
  }
  const auto accumulate = [&](int index, uint64_t value) {
    if (active[static_cast<size_t>(index)])
      operators_[static_cast<size_t>(index)].gradient += value & kSummable;
  };
  for (int layer = options_.layers_per_stage - 1; layer >= 0; --layer) {
    const auto at = static_cast<size_t>(layer);
    const int block = index_of(Part::kBlock, layer, -1), gate = index_of(Part::kGate, layer, -1);
    std::vector<uint64_t> to_experts(static_cast<size_t>(lanes_));
    const int choice = graph.gate_choices[at];
    if (graph.is_real)
      to_experts[static_cast<size_t>(choice % lanes_)] =
          (gradient | 0xffff) - 0xffff + static_cast<uint64_t>(choice) + 1;
    ASSIGN_OR_RETURN(const std::vector<uint64_t> gradients, exchange(to_experts));
    std::vector<uint64_t> input_gradients;
    for (const uint64_t of_token : gradients) {
      const int index =
          of_token == 0 ? 0
                        : index_of(Part::kExpert, layer, static_cast<int>(of_token & 0xffff) - 1);
      if (of_token != 0) accumulate(index, mix(of_token, 0xe8));
      input_gradients.push_back(
          of_token == 0 ? 0 : mix(of_token, weights_of(operators_[static_cast<size_t>(index)])));
    }
    ASSIGN_OR_RETURN(const std::vector<uint64_t> back, exchange(input_gradients));
    if (!graph.is_real) continue;
    accumulate(gate, mix(gradient, graph.layer_inputs[at], static_cast<uint64_t>(choice)));
    accumulate(block, mix(gradient, graph.layer_inputs[at]));
    gradient = mix(gradient, back[static_cast<size_t>(choice % lanes_)],
                   weights_of(operators_[static_cast<size_t>(gate)]),
                   weights_of(operators_[static_cast<size_t>(block)]));
  }
  if (!graph.is_real || role_.stage == 0) return absl::OkStatus();
  return send(role_.stage - 1, BoundaryDirection::kGradient, *micro_batch, gradient, boundary);
}

// Shared operators add up over the lanes; experts have all their tokens on their lane already.
absl::Status HashTrainer::reduce_gradients(const ActiveOperators& active) {
  for (size_t i = 0; i < operators_.size(); ++i) {
    Operator& op = operators_[i];
    if (!active[i] || op.part == Part::kExpert) continue;
    int64_t sum[] = {static_cast<int64_t>(op.gradient)};
    RETURN_IF_ERROR(stage_group_.all_reduce<int64_t>(sum, ReduceOp::kSum));
    op.gradient = static_cast<uint64_t>(sum[0]);
  }
  return absl::OkStatus();
}

void HashTrainer::count_choices(const Graph& graph) {
  if (!graph.is_real) return;
  for (int layer = 0; layer < options_.layers_per_stage; ++layer) {
    ++expert_loads_.tokens[static_cast<size_t>(layer * options_.experts +
                                               graph.gate_choices[static_cast<size_t>(layer)])];
  }
}

absl::StatusOr<Findings> HashTrainer::train(const ActiveOperators& active, Boundary& boundary) {
  for (Operator& op : operators_) op.gradient = 0;
  expert_loads_.tokens.assign(static_cast<size_t>(options_.layers_per_stage * options_.experts), 0);
  std::deque<Graph> held;
  uint64_t losses = 0;
  expected_.clear();
  for (size_t i = 0; i < order_.size(); ++i) {
    const RoundOperation& operation = order_[i];
    if (i + 1 < order_.size()) expect(order_[i + 1], boundary);
    const auto micro_batch = micro_batch_of(operation.round);
    if (operation.kind == RoundOperation::Kind::kForward) {
      fault_point("step/forward");
      const uint64_t sample = mix(options_.seed, position_.samples + micro_batch.value_or(0));
      ASSIGN_OR_RETURN(Graph graph, forward(sample, micro_batch, boundary));
      if (graph.is_real) losses += graph.output & 0xffff;
      count_choices(graph);
      held.push_back(std::move(graph));
    } else {
      fault_point("step/backward");
      RETURN_IF_ERROR(backward(held.front(), micro_batch, active, boundary));
      held.pop_front();
    }
  }
  fault_point("step/accumulated");
  RETURN_IF_ERROR(reduce_gradients(active));
  RETURN_IF_ERROR(stage_group_.all_reduce<int64_t>(expert_loads_.tokens, ReduceOp::kSum));
  expert_loads_.probability.assign(expert_loads_.tokens.begin(), expert_loads_.tokens.end());
  Findings findings{{0, static_cast<double>(losses)}, {saved_}};
  for (const Operator& op : operators_) {
    if (op.is_mine) findings.sums[0] += static_cast<double>(mix(op.gradient) & 0xffffff);
  }
  return findings;
}

absl::Status HashTrainer::apply(const Findings& combined, const ActiveOperators& active,
                                const BeforeWrite& before_write) {
  const auto norm = static_cast<uint64_t>(combined.sums[0]);
  const bool skipped =
      options_.skip_one_in > 0 && norm % static_cast<uint64_t>(options_.skip_one_in) == 0;
  ++position_.step;
  position_.samples += options_.micro_batches;
  position_.history = mix(position_.history, norm, static_cast<uint64_t>(combined.sums[1]));
  if (skipped) return absl::OkStatus();
  ++position_.updates;
  std::vector<int> written;
  for (size_t i = 0; i < operators_.size(); ++i) {
    Operator& op = operators_[i];
    if (!active[i]) continue;
    written.push_back(static_cast<int>(i));
    if (!op.is_mine) continue;
    RETURN_IF_ERROR(before_write(static_cast<int>(i)));
    Shard& s = op.shard;
    s.first_moment = mix(s.first_moment, op.gradient);
    s.second_moment = mix(s.second_moment, op.gradient, 2);
    s.master = mix(s.master, s.first_moment, s.second_moment, position_.history, position_.updates);
    op.compute[op.part == Part::kExpert ? 0 : static_cast<size_t>(role_.lane)] = cast(s.master);
  }
  return gather(written);
}

bool HashTrainer::is_evaluated(Step step) const {
  return options_.evaluate_every > 0 && step.value % options_.evaluate_every == 0;
}

absl::StatusOr<Findings> HashTrainer::evaluate(int64_t batch, Boundary& boundary) {
  uint64_t losses = 0;
  for (int round = 0; round < round_count(lanes_, options_.micro_batches); ++round) {
    const auto micro_batch = micro_batch_of(round);
    const uint64_t sample =
        mix(options_.seed, 0xe7a1, batch * options_.micro_batches + micro_batch.value_or(0));
    ASSIGN_OR_RETURN(const Graph graph, forward(sample, micro_batch, boundary));
    if (graph.is_real) losses += graph.output & 0xffff;
  }
  return Findings{{0, static_cast<double>(losses)}, {saved_}};
}

void HashTrainer::apply_evaluation(const Findings& combined) {
  position_.validation = mix(position_.validation, static_cast<uint64_t>(combined.sums[1]));
}

bool HashTrainer::is_saved(Step step) const {
  return is_finished() || (options_.save_every > 0 && step.value % options_.save_every == 0);
}

absl::Status HashTrainer::save() {
  // A process that was killed meanwhile writes nothing.
  if (!transport_
           .wait(transport_.start_send(transport_.rank(),
                                       {View(~uint32_t{0}), kStageGroups.last, 1}, {}),
                 absl::ZeroDuration())
           .ok()) {
    return Cancelled("killed");
  }
  disk_.write(step(), transport_.rank(), whole_state());
  saved_ = position_.step;
  return absl::OkStatus();
}

absl::StatusOr<Findings> HashTrainer::close() {
  if (saved_ < position_.step) RETURN_IF_ERROR(save());
  return Findings{{0, 0}, {saved_}};
}

bool HashTrainer::is_closed(const Findings& combined) {
  return combined.minima[0] >= position_.step;
}

}  // namespace evermoe
