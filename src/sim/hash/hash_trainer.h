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

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fingerprint.h"
#include "comm/communicator.h"
#include "parallel/membership.h"
#include "parallel/pipeline_schedule.h"
#include "parallel/topology.h"
#include "parallel/trained_lanes.h"
#include "protection/interval/save_pace.h"
#include "recovery/stage_trainer.h"
#include "sim/hash/hash_lanes.h"
#include "sim/hash/hash_model.h"
#include "sim/hash/hash_partial.h"
#include "sim/hash/hash_pass.h"
#include "sim/simulated_disk.h"

namespace evermoe {

class HashTrainer final : public StageTrainer {
 public:
  // The arguments outlive the trainer.
  HashTrainer(const Topology& topology, Transport& transport, SimulatedDisk& disk,
              const HashModelOptions& options);

  const std::vector<StageOperator>& operators() const override { return model_->inventory(); }
  void join_stage(View epoch) override {
    view_ = epoch;
    if (stage_group_) stage_group_->restart(epoch);
  }
  const Membership& membership() const override { return membership_; }
  void take_membership(const Membership& membership) override;
  void rest_at(Step step, const Findings& verdict) override;
  absl::Status change_membership(const Membership& to, View view, RecordBytes& position) override;
  bool may_move_experts(Step state) const override;
  bool moves_experts() const override;
  absl::Status move_experts() override;
  Step experts_moved() const override { return experts_moved_; }
  absl::StatusOr<std::string> resume(Communicator& world) override;
  RunOrigin run_origin() const override { return run_; }
  void take_run_origin(const RunOrigin& run) override { run_ = run; }
  absl::Status restore_base(Step base) override;
  void forget_base() override;
  void capture(int operator_index, SnapshotKind kind, int64_t offset,
               std::span<std::byte> into) const override {
    model_->capture(operator_index, kind, offset, into);
  }
  // Half of the operators are as if they were on a device: read a while after they were asked for.
  std::unique_ptr<CopyUnderWay> begin_capture(int operator_index, SnapshotKind kind, int64_t offset,
                                              std::span<std::byte> into,
                                              const WrittenState& written) const override;
  void restore(int operator_index, SnapshotKind kind, int64_t offset,
               std::span<const std::byte> from) override {
    model_->restore(operator_index, kind, offset, from);
  }
  absl::Status complete_restore(const std::vector<int>& operator_indices) override {
    return gather(operator_indices);
  }
  Step step() const override { return Step(model_->position().step); }
  RecordBytes position() const override;
  absl::Status set_position(const RecordBytes& position) override;
  absl::StatusOr<Findings> train(const ActiveOperators& active, Boundary& boundary,
                                 const OnReduced& on_reduced) override;
  const ExpertLoads& expert_loads() const override { return expert_loads_; }
  absl::Status apply(const Findings& combined, const ActiveOperators& active,
                     const BeforeWrite& before_write) override;
  absl::Status apply_alone(const Findings& combined, const BeforeWrite& before_write) override;
  bool is_evaluated(Step step) const override;
  int64_t evaluation_batches() const override { return options_.evaluation_batches; }
  absl::StatusOr<Findings> evaluate(int64_t batch, Boundary& boundary) override;
  void apply_evaluation(const Findings& combined) override;
  bool is_saved(Step step) const override;
  absl::Status save() override;
  bool is_finished() const override {
    return is_drained_ || model_->position().step >= options_.steps;
  }
  absl::StatusOr<Findings> close() override;
  bool is_closed(const Findings& combined) override;

  // It was asked to stop: all do with the next verdict.
  void drain() { is_drain_wanted_ = true; }
  bool is_drained() const { return is_drained_; }
  // Of this rank's whole state: every shard and the position; of a role that rests, its step.
  Fingerprint digest() const;
  bool rests() const { return model_->rests(); }
  int64_t samples() const { return model_->position().samples; }
  const TrainedOn& trained_on() const { return trained_on_; }

 private:
  // By membership_, with an empty state.
  void lay_out();
  // Everything that knows who trains, but the state.
  void connect();
  int lanes() const { return membership_.lanes().lanes(stage_); }
  // Of the experts, from the state at hand on: what it is, or what the history so far draws.
  uint64_t next_placement() const;
  // All shards of the lanes of `from`, which are among the group's.
  absl::Status exchange_shards(Communicator& group, const std::vector<Rank>& from,
                               HashShards& shards);
  // From the checkpoint of that step, whoever trained then.
  absl::Status load(Step step);
  std::optional<int> micro_batch_of(int round) const;
  // Tells the boundary what this operation will receive, if anything.
  void expect(const RoundOperation& operation, Boundary& boundary);
  // Runs the operations of a step; returns the sum of its losses.
  absl::StatusOr<uint64_t> run_rounds(const ActiveOperators& active, Boundary& boundary);
  // What apply() does on this rank alone; returns what was written.
  absl::StatusOr<std::vector<int>> update(const Findings& combined, const ActiveOperators& active,
                                          const BeforeWrite& before_write);
  absl::Status reduce_gradients(const ActiveOperators& active, const OnReduced& on_reduced);
  void count_choices(const HashPass::Graph& graph);
  // From a checkpoint that may have been made of several.
  absl::Status restart(Communicator& world, Step step);
  bool is_killed();
  // Of checkpoints with a few experts: saves the one that waits in memory, if its time has come.
  void save_waiting();
  // The newest save that this rank tells of: after steps, as if files took their time.
  int64_t told_save() const;
  // All have saved the state of this step: the first rank publishes it.
  void note_saved_by_all(int64_t step);
  void publish();
  static bool is_drain(const Findings& combined);
  // With what this rank says to every commit.
  Findings findings(double gradients, uint64_t losses) const;
  // Compute weights of all operators, of this lane's and from their owners.
  absl::Status gather_all();
  // Of these operators, from their owners.
  absl::Status gather(const std::vector<int>& operator_indices);

  const Topology& topology_;
  const int stage_;
  Transport& transport_;
  SimulatedDisk& disk_;
  const HashModelOptions options_;
  Membership membership_;
  Role place_;                               // lane -1: it rests
  std::optional<Communicator> stage_group_;  // empty: it rests
  std::vector<RoundOperation> order_;
  std::optional<HashModel> model_;
  TrainedOn trained_on_;  // of the position
  HashBoundary neighbours_;
  std::optional<HashPass> pass_;  // likewise
  ExpertLoads expert_loads_;
  bool is_drain_wanted_ = false;
  bool is_drained_ = false;  // goes with the position, but into no digest and no file
  View view_{0};
  RunOrigin run_;
  Step experts_moved_{-1};
  // As the real trainer's. Of this process, whoever played the role before:
  int64_t saved_ = -1;      // or begun from: nothing is left to do
  int64_t prepared_ = -1;   // it has saved it itself
  int64_t agreed_ = -1;     // all have saved it, or begun from it, as a record says
  int64_t published_ = -1;  // by the first rank
  int64_t refused_ = -1;    // the newest that the disk has refused
  SavePace pace_{1};        // not of the state: which steps are saved changes no bit
  std::optional<HashPartial> partial_;
  std::optional<HashRestarts> restarts_;
};

}  // namespace evermoe
