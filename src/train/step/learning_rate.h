// The learning rate of every step: a pure function of the configuration.
#pragma once

#include "base/ids.h"
#include "config/job_config.h"

namespace evermoe {

// For the update that leads from `step` to `step + 1`: linear warm-up to the peak, then constant,
// a cosine to the final rate at the last step of the schedule, or constant with a linear fall over
// its last decay_steps (warm-up, stable, decay). After the schedule it is what it was at its end.
double learning_rate(const TrainConfig& train, Step step);

}  // namespace evermoe
