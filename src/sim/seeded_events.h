// What happens in some random jobs besides the faults that are drawn for them, and what the jobs
// need for it. Functions of their arguments, without a draw: a seed whose job has none of it keeps
// its faults.
#pragma once

#include <cstdint>

#include "sim/random_schedule.h"

namespace evermoe {

// Roles move, and in most jobs something happens when their states are handed over.
void move_roles(uint64_t seed, RandomSchedule& schedule);

// A machine is taken away, or just leaves, and in most jobs something happens about then: another
// machine leaves or is lost for good, so that none may be left to take the roles, or a role is lost
// that moves. In many jobs with spares one of them is not fit for a while, too.
void take_nodes_away(uint64_t seed, RandomSchedule& schedule);

// An operator ends the job, and in most jobs a process is lost about then.
void drain_job(uint64_t seed, RandomSchedule& schedule);

// A role is slow from some time on, and moves where there is room.
void slow_down(uint64_t seed, RandomSchedule& schedule);

// The line from one machine to another one is slow from some time on.
void slow_a_link(uint64_t seed, RandomSchedule& schedule);

}  // namespace evermoe
