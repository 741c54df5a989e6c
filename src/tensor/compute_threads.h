// The threads that a process computes with: how many, and how they share processors with others.
#pragma once

namespace evermoe {

// One pool of this size for the process. Call before any tensor work.
void set_compute_threads(int threads);

// While they compute steps, these threads give way to the others of their scheduling group, which
// move messages, keep copies and follow orders: where there are more threads than processors, that
// for which others wait comes first.
enum class ComputePriority { kUsual, kGivesWay };

// Of the calling thread and its pool. What has given way once stays so where the system lets nobody
// take more again (RLIMIT_NICE of a user who is not root).
void set_compute_priority(ComputePriority priority);

}  // namespace evermoe
