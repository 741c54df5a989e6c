// A trainer whose model is arithmetic on a few integers: the hash model.
//
// It has the anatomy of the real one: stages and lanes, blocks, gates and experts as operators,
// master weights and moments sharded over their owners, compute weights gathered in the stage
// group, tokens sent to experts and back inside a layer, boundary messages, a verdict with skipped
// steps, evaluations and durable checkpoints. Every value is folded, by a hash, with every input
// that should reach it: gate choices, boundary messages, reductions, verdict, step and position. So
// one input that is wrong, missing, stale or doubled changes the digest for ever, and a step takes
// microseconds.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fingerprint.h"
#include "comm/communicator.h"
#include "parallel/pipeline_schedule.h"
#include "parallel/topology.h"
#include "recovery/stage_trainer.h"

namespace evermoe {

struct HashModelOptions {
  uint64_t seed = 1;
  int64_t steps = 12;
  int micro_batches = 4;
  int layers_per_stage = 1;
  int experts = 4;                 // of every layer
  int64_t evaluate_every = 0;      // steps; 0: never
  int64_t evaluation_batches = 1;  // of micro_batches each
  int64_t save_every = 0;          // steps; 0: only at the end
  int skip_one_in = 5;             // verdicts that skip the update; 0: none
};

// The durable store of a simulated job: survives every process.
class SimulatedDisk {
 public:
  void write(Step step, Rank rank, std::vector<std::byte> state) {
    files_[step][rank] = std::move(state);
  }
  // The newest step that all ranks have written; Step(-1).
  Step newest(int world_size) const;
  const std::vector<std::byte>& read(Step step, Rank rank) const {
    return files_.at(step).at(rank);
  }
  // Retention that keeps nothing but what a job must have.
  void remove_before(Step step) { files_.erase(files_.begin(), files_.lower_bound(step)); }

 private:
  std::map<Step, std::map<Rank, std::vector<std::byte>>> files_;
};

class HashTrainer final : public StageTrainer {
 public:
  // The arguments outlive the trainer.
  HashTrainer(const Topology& topology, Transport& transport, SimulatedDisk& disk,
              const HashModelOptions& options);

  const std::vector<StageOperator>& operators() const override { return inventory_; }
  void join_stage(View epoch) override;
  absl::StatusOr<std::string> resume(Communicator& world) override;
  absl::Status restore_base(Step base) override;
  void forget_base() override;
  void capture(int operator_index, SnapshotKind kind, int64_t offset,
               std::span<std::byte> into) const override;
  void restore(int operator_index, SnapshotKind kind, int64_t offset,
               std::span<const std::byte> from) override;
  absl::Status complete_restore(const std::vector<int>& operator_indices) override;
  Step step() const override { return Step(position_.step); }
  RecordBytes position() const override;
  absl::Status set_position(const RecordBytes& position) override;
  absl::StatusOr<Findings> train(const ActiveOperators& active, Boundary& boundary) override;
  const ExpertLoads& expert_loads() const override { return expert_loads_; }
  absl::Status apply(const Findings& combined, const ActiveOperators& active,
                     const BeforeWrite& before_write) override;
  bool is_evaluated(Step step) const override;
  int64_t evaluation_batches() const override { return options_.evaluation_batches; }
  absl::StatusOr<Findings> evaluate(int64_t batch, Boundary& boundary) override;
  void apply_evaluation(const Findings& combined) override;
  bool is_saved(Step step) const override;
  absl::Status save() override;
  bool is_finished() const override { return position_.step >= options_.steps; }
  absl::StatusOr<Findings> close() override;
  bool is_closed(const Findings& combined) override;

  // Of this rank's whole state: every shard and the position.
  Fingerprint digest() const;
  int64_t samples() const { return position_.samples; }

 private:
  struct Shard {
    uint64_t master = 0, first_moment = 0, second_moment = 0;
  };
  struct Position {
    int64_t step = 0;
    int64_t samples = 0;
    int64_t updates = 0;
    uint64_t history = 0;     // of every verdict
    uint64_t validation = 0;  // of every evaluation
  };
  enum class Part { kBlock, kGate, kExpert };
  struct Operator {
    Part part = Part::kBlock;
    int layer = 0;
    int expert = -1;
    bool is_mine = true;  // this lane owns a shard
    Shard shard;
    std::vector<uint64_t> compute;  // whole: one word per owner
    uint64_t gradient = 0;
  };
  // What the forward of a micro-batch leaves for its backward.
  struct Graph {
    bool is_real = false;
    std::vector<uint64_t> layer_inputs;
    std::vector<int> gate_choices;
    uint64_t output = 0;
  };
  using Message = std::array<uint64_t, 8>;

  static uint64_t cast(uint64_t master);  // the compute weight of a master weight
  uint64_t weights_of(const Operator& op) const;
  int index_of(Part part, int layer, int expert) const;
  void initialise();
  std::vector<std::byte> whole_state() const;
  absl::Status load(std::span<const std::byte> state);
  absl::Status gather(const std::vector<int>& operator_indices);

  // Tells the boundary what this operation will receive, if anything.
  void expect(const RoundOperation& operation, Boundary& boundary);
  absl::StatusOr<uint64_t> receive(int stage, BoundaryDirection direction, int micro_batch,
                                   Boundary& boundary);
  absl::Status send(int stage, BoundaryDirection direction, int micro_batch, uint64_t value,
                    Boundary& boundary);
  // Sends one word to every lane and gets one from each.
  absl::StatusOr<std::vector<uint64_t>> exchange(const std::vector<uint64_t>& words);
  // `sample`: what the first stage reads.
  absl::StatusOr<Graph> forward(uint64_t sample, std::optional<int> micro_batch,
                                Boundary& boundary);
  absl::Status backward(const Graph& graph, std::optional<int> micro_batch,
                        const ActiveOperators& active, Boundary& boundary);
  std::optional<int> micro_batch_of(int round) const;
  absl::Status reduce_gradients(const ActiveOperators& active);
  void count_choices(const Graph& graph);

  const Topology& topology_;
  Transport& transport_;
  SimulatedDisk& disk_;
  const HashModelOptions options_;
  const Role role_;
  const int lanes_;
  Communicator stage_group_;
  std::vector<RoundOperation> order_;
  std::map<std::pair<BoundaryDirection, int>, std::shared_ptr<Message>>
      expected_;  // by micro-batch
  std::vector<Operator> operators_;
  std::vector<StageOperator> inventory_;
  Position position_;
  ExpertLoads expert_loads_;
  int64_t saved_ = -1;
};

}  // namespace evermoe
