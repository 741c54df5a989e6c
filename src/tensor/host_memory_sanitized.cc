#include "tensor/host_memory.h"

namespace evermoe {

void keep_freed_memory() {}

}  // namespace evermoe
