// One rank of a training job that starts again when a process is lost: its part of the model, its
// rounds, its shards, its checkpoints. recoverable_trainer.h is for jobs that go on.
//
// Every method is collective: all ranks of the job call the same methods in the same order. A
// method that fails with PeerLost, Timeout or Cancelled leaves the trainer unusable; the process
// should end.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/format/training_position.h"
#include "comm/communicator.h"
#include "config/job_config.h"
#include "parallel/topology.h"
#include "train/state/durable_state.h"
#include "train/step/direct_boundary.h"
#include "train/step/rank_model.h"
#include "train/step/trainer_environment.h"
#include "train/step/verdict.h"

namespace evermoe {

class Trainer {
 public:
  // Builds this rank's model with all weights zero. The configuration has been validated; what the
  // environment points to must outlive the trainer. InvalidInput if the data is too short.
  static absl::StatusOr<std::unique_ptr<Trainer>> create(const JobConfig& config,
                                                         const TrainerEnvironment& environment);
  ~Trainer();

  // Loads the newest checkpoint that every rank can read, in whatever topology it was written, or
  // makes the initial state if there is none. InvalidInput if it belongs to another model.
  absl::StatusOr<Resumption> resume();

  // Trains one step. On return every rank has the same record, the update is applied (unless the
  // record says skipped) and the compute weights are gathered. `drain`: this rank was asked to
  // stop.
  absl::StatusOr<StepRecord> step(bool drain);

  // Mean loss over the tokens of an evaluation, the same on every rank.
  absl::StatusOr<double> evaluate();

  // Begins a durable checkpoint of the present state; returns when it is copied. It is published
  // by a later step() or by finish(), when all ranks have it on disk.
  absl::Status save();

  // Waits until everything begun is published. An error of one rank reaches every rank.
  absl::Status finish();

  const TrainingPosition& position() const { return position_; }
  // Newest checkpoint this rank knows to be published (rank 0 only); Step(-1) for none.
  Step published() const;
  Role role() const { return model_->role(); }
  Rank rank() const { return Rank(world_->index()); }
  // This rank's operators, for tests and tools; valid as long as the trainer.
  std::vector<OperatorState*> operators() { return model_->operators(); }
  // Gradients of one step without updating anything: for comparison with a reference.
  absl::StatusOr<StepFindings> accumulate_gradients();

 private:
  Trainer(const JobConfig& config, const TrainerEnvironment& environment,
          std::unique_ptr<RankModel> model);
  // Waits on every rank until wait(slice) is done on all; Timeout from it means not yet.
  absl::Status wait_everywhere(const std::function<absl::Status(absl::Duration)>& wait,
                               const char* what);

  const JobConfig config_;
  std::unique_ptr<Communicator> world_;
  DirectBoundary boundary_;
  std::unique_ptr<RankModel> model_;
  DurableState durable_;
  TrainingPosition position_;
};

}  // namespace evermoe
