// When a run is given up because its numbers are not finite, and what is left behind of it. Pure.
//
// A step whose loss or gradients are not finite is skipped: the state stays as it is. In FP16 that
// is the ordinary way to find the loss scale; elsewhere, and at the lowest scale, the next step is
// hardly better. So a row of such steps ends the run, and a state that is not finite itself ends it
// at once.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/format/training_position.h"
#include "config/job_config.h"
#include "train/layers/non_finite.h"
#include "train/step/verdict.h"

namespace evermoe {

struct Divergence {
  Step first_step;    // the first of the skipped steps, or the step whose state is not finite
  Step step;          // the step whose verdict ended the run
  int64_t limit = 0;  // train.skipped_steps_max; 0: the state itself is not finite
  std::optional<NonFinite> first;  // of `step`
  StepRecord record;
};

// Skipped steps in a row after this one, of which there were `before` before it. In FP16 a step
// that lowers the loss scale is not counted.
int64_t skipped_in_row(int64_t before, const StepRecord& record, const TrainConfig& train);
// `skipped` is what skipped_in_row() says after `record`.
std::optional<Divergence> find_divergence(const StepRecord& record, int64_t skipped,
                                          const TrainConfig& train);
// The same where there is no step any more: `non_finite` (a key) is what ranks found in the last
// state.
std::optional<Divergence> find_divergence_at_end(int64_t non_finite, const TrainingPosition& last);

// One line for the user. `checkpoint` is the newest good one, Step(-1) for none; `file` what
// to_json() was written to.
std::string describe(const Divergence& divergence, const ModelShape& shape, Step checkpoint,
                     const std::string& file);
// The forensic record, docs/formats/divergence.md.
std::string to_json(const Divergence& divergence, const ModelShape& shape, Step checkpoint);

}  // namespace evermoe
