// Durable checkpoints with a few experts of each layer, as one rank's trainer makes them and goes
// back to them. LOSSY: protection/partial_experts/partial_saves.h decides what they hold.
//
// Threads: training thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/format/training_position.h"
#include "checkpoint/write/checkpoint_saver.h"
#include "comm/communicator.h"
#include "config/job_config.h"
#include "parallel/topology.h"
#include "protection/partial_experts/partial_saves.h"
#include "recovery/stage_trainer.h"
#include "train/state/operator_state.h"
#include "train/state/state_images.h"

namespace evermoe {

class PartialCheckpoints {
 public:
  // `operators`: those of its stage that this rank holds; they outlive this.
  PartialCheckpoints(const JobConfig& config, const Topology& topology, Role role,
                     std::vector<OperatorState*> operators);

  // Everybody goes back to this checkpoint (null: to the initial state). Restores what this rank
  // has in memory, and returns the operators that have to be loaded. Collective over `world`.
  // In this view.
  absl::StatusOr<std::vector<OperatorState*>> restart(Communicator& world, View view,
                                                      const Manifest* manifest);

  // By a verdict: the newest checkpoint that is published, and one that never will be.
  void on_verdict(Step published, Step failed);
  // The state has been updated from tokens that these loads count.
  void on_update(const ExpertLoads& loads) { saves_.add_step(loads.tokens); }

  // Copies the state at this position to memory, for a checkpoint that begins when it can; one that
  // waits is given up.
  void take(const TrainingPosition& position);
  Step waiting() const { return saves_.waiting(); }  // Step(-1) for none
  struct Save {
    TrainingPosition position;
    std::vector<ShardSource> shards;  // in memory of their own
    PartialSave partial;
  };
  // The checkpoint that waits, if none is under way. It is under way then.
  std::optional<Save> begin();
  // What a checkpoint of everything at `step` says of the experts.
  PartialSave describe_whole(Step step) const;
  // With what is to be saved with each.
  TrainingPosition describe(TrainingPosition position) const;

  // Tokens that experts have lost by the last restart.
  int64_t lost_now() const { return lost_now_; }
  // Tokens that experts have lost by all restarts, as a share of all that the run sends to experts
  // up to `step` (PLT).
  double lost_share(Step step) const;

 private:
  // By layer and expert.
  int index_in_model(const OperatorSpec& spec) const;
  int index_in_stage(const OperatorSpec& spec) const;
  bool is_in(const LossySelection& selection, const OperatorState& state) const;
  StoredExperts stored_experts(const Manifest* manifest) const;
  void settle(Step checkpoint);
  std::vector<int64_t> good_images(Step checkpoint) const;
  std::vector<ExpertHistory> histories(const std::vector<StoredExpert>& stored, Step step) const;

  const ModelShape shape_;
  const std::vector<OperatorSpec> experts_;  // of the stage, whichever rank holds them
  const std::vector<OperatorState*> operators_;
  const bool describes_stage_;  // one rank of each stage does
  const int64_t layer_tokens_;  // of a step
  const PartialSavesOptions options_;
  PartialSaves saves_;
  StateImages images_;
  TrainingPosition waiting_;  // of what waits
  int64_t lost_now_ = 0;
  View view_{0};  // of the last restart
};

}  // namespace evermoe
