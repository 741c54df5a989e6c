// A job of RecoverableTrainers in one process, driven step by step, for tests of the trainer alone:
// no members, no controller, nothing is captured unless the test does it.
#pragma once

#include <functional>
#include <vector>

#include "train/step/direct_boundary.h"
#include "train/step/recoverable_trainer.h"
#include "train/step/training_cluster_testing.h"

namespace evermoe {

class RecoverableRank {
 public:
  RecoverableRank(RecoverableTrainer& trainer, Communicator& world);

  RecoverableTrainer& trainer() { return trainer_; }
  Rank rank() const { return Rank(world_.index()); }
  ActiveOperators all_active() const { return ActiveOperators(trainer_.operators().size(), true); }

  // Runs the step's micro-batches; what all ranks found together.
  absl::StatusOr<Findings> train(const ActiveOperators& active);
  // train() and apply().
  absl::Status step(
      const ActiveOperators& active,
      const BeforeWrite& before_write = [](int) { return absl::OkStatus(); });
  // So many, with all operators.
  absl::Status steps(int count);
  // The validation loss of the present state.
  absl::StatusOr<double> evaluate();

 private:
  RecoverableTrainer& trainer_;
  Communicator& world_;
  DirectBoundary boundary_;
};

// Builds one trainer per rank, resumes, runs `body` on each. The first error of any.
absl::Status run_recoverable(const TrainingCluster& cluster, const JobConfig& config,
                             const std::function<absl::Status(RecoverableRank&)>& body);

}  // namespace evermoe
