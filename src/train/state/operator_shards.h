// The operators of a stage as recovery moves them: bytes of this rank's shards of their parts.
//
// What recovery takes for an operator is a part of one (operator_parts.h). A full snapshot is the
// shard's master weights, then its first moments, then its second moments, of the part; a
// compute-only one the shard's compute weights; its gradients are the shard's, summed over the
// owners.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "config/job_config.h"
#include "experts/placement/expert_placement.h"
#include "recovery/stage_trainer.h"
#include "tensor/device_copies.h"
#include "train/state/operator_parts.h"
#include "train/state/operator_state.h"

namespace evermoe {

class OperatorShards {
 public:
  // `stage` are all operators of the stage, `own` those that this rank holds, in the same order;
  // they outlive this. Parts are as large as config.protection.part_bytes says. `placements`: of
  // the stage's experts.
  OperatorShards(const JobConfig& config, const StateTypes& types,
                 const std::vector<OperatorSpec>& stage, const LayerPlacements& placements,
                 const std::vector<OperatorState*>& own);

  // As StageTrainer::operators(): the parts of all operators.
  const std::vector<StageOperator>& inventory() const { return inventory_; }
  // Null if this rank does not hold the operator.
  OperatorState* state(int operator_index) const {
    return shards_[static_cast<size_t>(operator_index)].state;
  }
  // Of the flat layout of the operator that it is a part of.
  FlatRange range(int operator_index) const {
    return shards_[static_cast<size_t>(operator_index)].range;
  }
  // The part of this operator that is this range.
  int index_of(const OperatorState& state, FlatRange range) const;
  // The parts of this operator that are active.
  std::vector<int> active_parts_of(const OperatorState& state) const;
  // The operators of which these are parts, as far as this rank holds them; each once, in the order
  // given.
  std::vector<OperatorState*> states_of(const std::vector<int>& operator_indices) const;

  // The active ranges of every operator become its active parts.
  void set_active(const ActiveOperators& active);

  // Copies bytes [offset, offset + into.size()) of a snapshot. Another thread may read the tensors.
  void capture(int operator_index, SnapshotKind kind, int64_t offset,
               std::span<std::byte> into) const;
  // The same of a device, in the background.
  void begin_capture(int operator_index, SnapshotKind kind, int64_t offset,
                     std::span<std::byte> into, CopyToHost& copy) const;
  // The reverse; nothing outside the part changes. A full snapshot also brings the shard's compute
  // weights. Of a compute-only one, master weights and moments become zero: stale ones must not
  // help by accident.
  void restore(int operator_index, SnapshotKind kind, int64_t offset,
               std::span<const std::byte> from);

 private:
  // This rank's shard of a part: 1-D views of the operator's state, undefined if it does not hold
  // it.
  struct Shard {
    OperatorState* state = nullptr;
    FlatRange range;
    at::Tensor master, exp_avg, exp_avg_sq, compute, gradient;
    bool is_master_compute = false;  // the master is the shard of the compute weights
  };
  // Calls copy(tensor, offset in it, bytes of `into`) for each piece of a snapshot.
  template <typename Copy>
  void visit_pieces(int operator_index, SnapshotKind kind, int64_t offset,
                    std::span<std::byte> into, Copy copy) const;
  static Shard shard_of(OperatorState& state, FlatRange range);
  static void restore_full(const Shard& shard, int64_t offset, std::span<const std::byte> from);
  static void restore_gradient(const Shard& shard, int64_t offset, std::span<const std::byte> from);
  static void restore_compute(const Shard& shard, int64_t offset, std::span<const std::byte> from);

  std::vector<StageOperator> inventory_;
  std::vector<Shard>
      shards_;  // in the order of the inventory; the parts of an operator follow each other
  absl::flat_hash_map<const OperatorState*, size_t> first_part_;
};

}  // namespace evermoe
