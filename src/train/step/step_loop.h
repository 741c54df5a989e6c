// The loop around a trainer: steps, evaluations and checkpoints until the last step or a drain.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "config/job_config.h"
#include "train/step/trainer.h"
#include "train/step/verdict.h"

namespace evermoe {

// What happens, in order, on this rank. Called on the training thread; must not block.
struct StepObserver {
  std::function<void(const StepRecord&)> on_step;
  std::function<void(Step, double validation_loss)> on_evaluated;
  std::function<void(Step)> on_published;  // rank 0 only
};

struct StepLoopResult {
  Step step;
  bool drained = false;  // ended before train.steps because a rank was asked to
};

// Collective. `drain_requested` is asked once a step. On return the state of result.step is durable
// and published. A resumed run evaluates and saves at the same steps as an undisturbed one.
absl::StatusOr<StepLoopResult> run_steps(Trainer& trainer, const JobConfig& config,
                                         const std::function<bool()>& drain_requested,
                                         const StepObserver& observer);

}  // namespace evermoe
