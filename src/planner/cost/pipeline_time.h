// How long a pipeline of unequal stages takes for a step, by playing the orders of
// pipeline_schedule.h.
#pragma once

#include <vector>

namespace evermoe {

// Seconds from the first forward to the last backward round, if stage s takes forward[s] and
// backward[s] per round and starts one as soon as its order and its micro-batches let it. Equal
// stages: (M + S - 1) times both.
// REQUIRES: as many entries in all as stages; micro_batches >= 1.
double pipeline_seconds(const std::vector<int>& lanes, int micro_batches,
                        const std::vector<double>& forward, const std::vector<double>& backward);

}  // namespace evermoe
