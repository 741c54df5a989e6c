// The Transport of a simulated process: calls that may hand over to another thread.
#pragma once

#include <memory>

#include "comm/simulated/simulated_kernel.h"

namespace evermoe {

std::unique_ptr<Transport> make_simulated_transport(SimulatedKernel& kernel,
                                                    SimulatedProcess& process);

}  // namespace evermoe
