#include "train/step/step_loop.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/fault_point.h"

namespace evermoe {
namespace {

bool due(Step step, int64_t every) { return every > 0 && step.value % every == 0; }

}  // namespace

absl::StatusOr<StepLoopResult> run_steps(Trainer& trainer, const JobConfig& config,
                                         const std::function<bool()>& drain_requested,
                                         const StepObserver& observer) {
  StepLoopResult result;
  Step published = trainer.published();
  const auto notice_published = [&] {
    if (trainer.published() == published) return;
    published = trainer.published();
    observer.on_published(published);
  };
  while (trainer.position().step.value < config.train.steps && !result.drained) {
    const auto record = trainer.step(drain_requested());
    if (!record.ok()) {
      return annotate(record.status(), absl::StrCat("step ", trainer.position().step.value + 1));
    }
    observer.on_step(*record);
    const Step step = record->step;
    const bool last = step.value >= config.train.steps;
    result.drained = record->drain && !last;
    if (due(step, config.evaluate.every_steps) || last) {
      ASSIGN_OR_RETURN(const double loss, trainer.evaluate());
      observer.on_evaluated(step, loss);
    }
    if (due(step, config.checkpoint.every_steps) || last || result.drained) {
      fault_point("step/save");
      RETURN_IF_ERROR(trainer.save());
    }
    notice_published();
  }
  RETURN_IF_ERROR(trainer.finish());
  notice_published();
  result.step = trainer.position().step;
  return result;
}

}  // namespace evermoe
