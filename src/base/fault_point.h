// Named places inside the code where a test can make the process die or wait.
//
// Faults of the environment (a full disk, a lost message) are wrappers around env/ and comm/. A
// fault point exists only for an ordering that no wrapper can reach, such as "between the optimizer
// update and the gathering of weights". Inert, and one atomic load, unless armed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace evermoe {

// Called with the point's name and how often it was reached before, in any thread.
using FaultHandler = std::function<void(const char* point, int64_t reached_before)>;

// Installs `handler` for every fault point of this process; an empty handler disarms them.
void arm_fault_points(FaultHandler handler);

void fault_point(const char* name);

}  // namespace evermoe
