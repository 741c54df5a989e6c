// A device for tests on any machine, as strict as a GPU and stricter:
//
//   * its memory cannot be read or written by the host: a host pointer into it traps;
//   * its streams run late: what changes memory in place, and every copy that need not be waited
//     for, happens only when the same stream is used again, or somebody waits for it. What another
//     stream, or the host, has not waited for is not there yet.
//
// Its kernels are the CPU's, so what a program comes to has the CPU's bits; a synchronisation that
// is missing shows as other bits.
//
// PyTorch knows it as `fake:0`. Threads: any.
#pragma once

#include "tensor/torch.h"

namespace evermoe {

// Once a process, before its first tensor; later calls do nothing.
at::Device fake_device();

// How much is still to run on all streams, for tests of the device itself.
int64_t late_operations();

}  // namespace evermoe
