// What one rank holds of the hash model: operators with their shards, and where training stands.
//
// The model is arithmetic on a few integers. Blocks, gates and experts are operators; blocks and
// gates are sharded over the lanes of the stage, an expert belongs to one lane, which the position
// says. Master weights and moments are an owner's; compute weights are whole on every lane that
// uses them, one word per owner.
//
// Pure: collectives are the trainer's (hash_trainer.h). Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "parallel/topology.h"
#include "protection/partial_experts/expert_selection.h"
#include "recovery/stage_trainer.h"
#include "sim/partial_files.h"

namespace evermoe {

struct HashModelOptions {
  uint64_t seed = 1;
  int64_t steps = 12;
  int micro_batches = 4;
  int layers_per_stage = 1;
  int experts = 4;                 // of every layer
  int64_t move_experts_every = 0;  // states at which they may move; 0: none
  int64_t evaluate_every = 0;      // steps; 0: never
  int64_t evaluation_batches = 1;  // of micro_batches each
  int64_t save_every = 0;          // steps; 0: only at the end
  bool tunes_saves = false;        // instead as ranks agree; what they want is drawn
  int skip_one_in = 5;             // verdicts that skip the update; 0: none
  // Saves hold so many experts of a layer (PartialSavesOptions); 0: all, as anything but LOSSY.
  int experts_saved = 0;
  int experts_in_memory = 0;
  ExpertSelection expert_selection = ExpertSelection::kSequential;
  double plt_max = 1;
  // What a run without faults has to go through to have the bits of one that lost something.
  std::shared_ptr<const std::vector<PartialRestartPoint>> restarts;
};

class HashModel {
 public:
  struct Shard {
    uint64_t master = 0, first_moment = 0, second_moment = 0;
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
  struct Position {
    int64_t step = 0;
    int64_t samples = 0;
    int64_t updates = 0;
    uint64_t history = 0;     // of every verdict
    uint64_t validation = 0;  // of every evaluation
    uint64_t placement = 0;   // of the experts: lane_of()
  };

  // `lanes`: of the role's stage. Lane -1: it rests, and owns no shard.
  HashModel(Role role, int lanes, const HashModelOptions& options);

  // By operator, as a member captures and restores them.
  const std::vector<StageOperator>& inventory() const { return inventory_; }
  std::vector<Operator>& operators() { return operators_; }
  Operator& at(int index) { return operators_[static_cast<size_t>(index)]; }
  int index_of(Part part, int layer, int expert = -1) const;
  // Its placement is changed by place() alone, which empties what goes elsewhere.
  Position& position() { return position_; }
  const Position& position() const { return position_; }
  void take_position(const Position& position);
  // Experts live elsewhere from now on; the shards of those that come here are empty.
  void place(uint64_t placement);
  int lane_of(int layer, int expert) const {
    return lane_of(position_.placement, lanes_, layer, expert);
  }
  static int lane_of(uint64_t placement, int lanes, int layer, int expert) {
    const uint64_t place =
        static_cast<uint64_t>(expert) + placement * static_cast<uint64_t>(layer + 1);
    return static_cast<int>(place % static_cast<uint64_t>(lanes));
  }

  // The state before the first step. Compute weights are what the owners make of it.
  void initialise();
  bool rests() const { return role_.lane < 0; }
  // Of this rank: every shard and the position.
  std::vector<std::byte> state() const;
  void load(std::span<const std::byte> state);
  // This lane's words of the compute weights, from its master weights.
  void cast_own();

  // As in StageTrainer.
  void capture(int index, SnapshotKind kind, int64_t offset, std::span<std::byte> into) const;
  void restore(int index, SnapshotKind kind, int64_t offset, std::span<const std::byte> from);

  // Everything an operator computes with, as one value.
  uint64_t weights(int index) const;
  void clear_gradients();
  // Keeps sums over all lanes and micro-batches exact.
  void accumulate(int index, uint64_t gradient);
  // The optimizer's: from the gradient and the position. REQUIRES: this lane owns a shard.
  void update(int index);

 private:
  void add(Part part, int layer, int expert, const HashModelOptions& options);
  // As position_ has it.
  void find_own_experts();
  size_t own_word(const Operator& op) const {
    return op.part == Part::kExpert ? 0 : static_cast<size_t>(role_.lane);
  }

  const Role role_;
  const int lanes_;
  const uint64_t seed_;
  const int experts_;
  std::vector<Operator> operators_;
  std::vector<StageOperator> inventory_;
  Position position_;
};

}  // namespace evermoe
