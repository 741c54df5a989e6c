// The memory that a process has to itself.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace evermoe {

// In bytes: what of it is in memory and belongs to no file, so that others cannot have it while
// `pid` lives. 0 where the kernel does not say, or there is no such process. Any thread.
int64_t process_memory(pid_t pid);

}  // namespace evermoe
