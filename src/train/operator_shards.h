// The operators of a stage as recovery moves them: bytes of this rank's shards.
//
// A full snapshot is the shard's master weights, then its first moments, then its second moments; a
// compute-only one the shard's compute weights.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "config/job_config.h"
#include "recovery/stage_trainer.h"
#include "train/operator_state.h"

namespace evermoe {

class OperatorShards {
 public:
  // `stage` are all operators of the stage, `own` those that this rank holds, in the same order; they
  // outlive this.
  OperatorShards(const JobConfig& config, const StateTypes& types, const std::vector<OperatorSpec>& stage,
                 const std::vector<OperatorState*>& own);

  // As StageTrainer::operators().
  const std::vector<StageOperator>& inventory() const { return inventory_; }
  // Null if this rank does not hold the operator.
  OperatorState* state(int operator_index) const { return shards_[static_cast<size_t>(operator_index)].state; }
  int index_of(const OperatorState& state) const;

  // Copies bytes [offset, offset + into.size()) of a snapshot. Another thread may read the tensors.
  void capture(int operator_index, SnapshotKind kind, int64_t offset, std::span<std::byte> into) const;
  // The reverse. A full snapshot also brings the shard's compute weights. Of a compute-only one, master
  // weights and moments become zero: stale ones must not help by accident.
  void restore(int operator_index, SnapshotKind kind, int64_t offset, std::span<const std::byte> from);

 private:
  using Bytes = std::span<std::byte>;
  struct Shard {
    OperatorState* state = nullptr;
    std::array<Bytes, 3> full;  // master weights and moments
    Bytes compute;
    bool is_master_compute = false;  // the master is the shard of the compute weights
  };
  // Elements of a part that bytes [begin, end) of it touch.
  static FlatRange elements(const at::Tensor& part, int64_t begin, int64_t end);

  std::vector<StageOperator> inventory_;
  std::vector<Shard> shards_;
};

}  // namespace evermoe
