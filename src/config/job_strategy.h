// The protection that a configuration asks for.
#pragma once

#include "config/job_config.h"
#include "protection/strategy/strategy.h"

namespace evermoe {

// The configuration has been validated. A job of one worker has nobody to keep copies: whatever it
// asks for, a loss sends it back to a durable checkpoint. `captures.slots_max` is no limit of
// memory yet.
Strategy strategy_of(const JobConfig& config);

// Of a strategy that captures all operators at once.
int64_t steps_between_snapshots(const ProtectionConfig& protection);

}  // namespace evermoe
