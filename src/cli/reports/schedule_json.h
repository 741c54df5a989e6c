// A random schedule of `evermoe sim` for programs: what tests/machines plays with real processes.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "sim/random_schedule.h"

namespace evermoe {

// {"seed": 7, "shape": {...}, "faults": [...]}. Times are seconds of the simulation. A fault has
// `at_seconds`, or `point`, `passing` and `usual_passings`: how often all ranks together pass it in
// a job. `rank` -1 is whoever passes; `node` -1 each node. What a kind does not use is there, too.
nlohmann::ordered_json as_json(uint64_t seed, const RandomSchedule& schedule);

}  // namespace evermoe
