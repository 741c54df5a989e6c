// One rank of a training job: its part of the model, its rounds, its shards, its checkpoints.
//
// Every method is collective: all ranks of the job call the same methods in the same order. A method
// that fails with PeerLost, Timeout or Cancelled leaves the trainer unusable; the process should end.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/transport.h"
#include "config/job_config.h"
#include "env/files.h"
#include "placement/topology.h"
#include "store/checkpoint_saver.h"
#include "store/training_position.h"
#include "train/batch_reader.h"
#include "train/stage_model.h"
#include "train/stage_runner.h"
#include "train/verdict.h"

namespace evermoe {

struct TrainerEnvironment {
  Transport* transport = nullptr;
  Files* files = nullptr;
  std::string checkpoint_directory;
  TokenPart training;
  TokenPart validation;
  View view;
};

// Where a run goes on, and why there.
struct Resumption {
  Step step;
  std::string source;                // path of a checkpoint, or "initial state"
  std::vector<std::string> skipped;  // newer checkpoints that could not be used, and why
};

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
  // record says skipped) and the compute weights are gathered. `drain`: this rank was asked to stop.
  absl::StatusOr<StepRecord> step(bool drain);

  // Mean loss over evaluate.micro_batches validation micro-batches, the same on every rank.
  absl::StatusOr<double> evaluate();

  // Begins a durable checkpoint of the present state; returns when it is copied. It is published
  // by a later step() or by finish(), when all ranks have it on disk.
  absl::Status save();

  // Waits until everything begun is published. An error of one rank reaches every rank.
  absl::Status finish();

  const TrainingPosition& position() const { return position_; }
  Step last_save() const { return last_save_; }
  // Newest checkpoint this rank knows to be published (rank 0 only); Step(-1) for none.
  Step published() const;
  Role role() const { return role_; }
  Rank rank() const { return Rank(world_->index()); }
  // This rank's operators, for tests and tools; valid as long as the trainer.
  std::vector<OperatorState*> operators() { return operators_; }
  // Gradients of one step without updating anything: for comparison with a reference.
  absl::StatusOr<StepFindings> accumulate_gradients();

 private:
  Trainer(const JobConfig& config, const TrainerEnvironment& environment);
  absl::Status open_saver();
  // What must not change between a checkpoint and the run that continues it: model, order of the
  // samples and the tokens themselves.
  std::string identity() const;
  absl::StatusOr<StepRecord> train_step(bool drain);
  absl::Status restore(const std::string& path);
  absl::Status restore_on_all_ranks(const std::string& path);
  absl::StatusOr<std::vector<std::string>> agreed_candidates();
  // Waits on every rank until wait(slice) is done on all; Timeout from it means not yet.
  absl::Status wait_everywhere(const std::function<absl::Status(absl::Duration)>& wait, const char* what);
  absl::Status reduce_gradients();
  absl::Status gather_compute();
  void publish_prepared(Step prepared);

  const JobConfig config_;
  const TrainerEnvironment environment_;
  const Topology topology_;
  const Role role_;
  const StateTypes types_;
  std::unique_ptr<Communicator> world_;
  std::unique_ptr<Communicator> stage_group_;
  std::vector<std::unique_ptr<Communicator>> expert_groups_;
  std::unique_ptr<BatchReader> batches_;
  std::unique_ptr<StageModel> model_;
  std::unique_ptr<StageRunner> runner_;
  std::unique_ptr<CheckpointSaver> saver_;
  std::vector<OperatorState*> operators_;
  TrainingPosition position_;
  Step last_save_{-1};
  Step publish_requested_{-1};
};

StateTypes state_types(Precision precision);

}  // namespace evermoe
