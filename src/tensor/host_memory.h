// How the process keeps its host memory.
#pragma once

namespace evermoe {

// Keeps freed memory in the process instead of giving it back to the kernel: every micro-batch
// frees and takes the same large blocks, and clearing fresh pages for them costs a tenth of a step.
// The process then holds its peak. Call once, before the first tensor.
void keep_freed_memory();

}  // namespace evermoe
