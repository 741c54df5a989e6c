// How the process keeps its host memory: its allocator is gperftools' tcmalloc, in programs that
// link libtorch.
//
// Training frees and takes the same large blocks in every micro-batch, while another thread takes
// and frees those of copies. glibc's malloc searches lists of free pieces for them, which took a
// tenth of a step; tcmalloc finds the best one in a tree, and a thread may use again what another
// one has freed.
#pragma once

namespace evermoe {

// Keeps freed memory in the process instead of giving it back to the kernel, because clearing fresh
// pages for the next micro-batch costs a tenth of a step; the process then holds its peak. And asks
// the kernel for large pages, which it clears in a seventh of the time: a process that takes a role
// fills much memory while others wait for it. Call once, before the first tensor. Does nothing
// under a sanitizer, which has its own allocator.
void keep_freed_memory();

}  // namespace evermoe
