// How long a process was ready to run and got no processor.
#pragma once

#include <sys/types.h>

#include "absl/time/time.h"

namespace evermoe {

// Of the main thread of `pid`, since it began: because others ran, or because its group had used up
// what it may. Time in which the process was stopped does not count. Zero where the kernel does not
// say, or there is no such process. Any thread.
absl::Duration processor_wait(pid_t pid);

}  // namespace evermoe
