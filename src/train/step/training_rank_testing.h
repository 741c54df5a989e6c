// One rank of a job in one process, driven by hand through the interface by which recovery drives a
// trainer, for tests of the trainer alone: no controller, nothing is captured unless the test does
// it. Boundary messages go the way of production (BoundaryExchange), in one view.
#pragma once

#include "comm/transport/signal.h"
#include "recovery/member/train/boundary_exchange.h"
#include "recovery/plan/recovery_memory.h"
#include "train/step/trainer.h"

namespace evermoe {

class TrainingRank {
 public:
  // Both outlive it.
  TrainingRank(Trainer& trainer, Transport& transport);

  // Everybody goes on from the newest durable state, or from the beginning.
  absl::Status resume() { return resume_and_tell().status(); }
  // Says from where.
  absl::StatusOr<std::string> resume_and_tell() { return trainer_.resume(world_); }
  // The state at `base` as a process has it that takes a lost one's place.
  absl::Status restore_base(Step base) { return trainer_.restore_base(base); }

  Trainer& trainer() { return trainer_; }
  Rank rank() const { return Rank(world_.index()); }
  ActiveOperators all_active() const { return ActiveOperators(trainer_.operators().size(), true); }

  // Runs the step's micro-batches; what all ranks found together.
  absl::StatusOr<Findings> train(
      const ActiveOperators& active, const OnReduced& on_reduced = [](int) {});
  // train() and apply().
  absl::Status step(
      const ActiveOperators& active,
      const BeforeWrite& before_write = [](int) { return absl::OkStatus(); });
  // So many, with all operators.
  absl::Status steps(int count);
  // The validation loss of the present state.
  absl::StatusOr<double> evaluate();
  // Saves the present state and returns when it is published.
  absl::Status close();

 private:
  absl::StatusOr<Findings> agree(Findings own);
  void finish();

  Trainer& trainer_;
  Communicator world_;
  Signal wake_;
  MessageSender sender_;
  MemberViews views_;
  RecoveryMemory memory_;
  Witnesses witnesses_;
  BoundaryExchange boundary_;
};

}  // namespace evermoe
