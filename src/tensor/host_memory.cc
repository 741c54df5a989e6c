#include "tensor/host_memory.h"

#include <malloc.h>

#include <limits>

#include "base/check.h"

namespace evermoe {

void keep_freed_memory() {
  // glibc takes no larger threshold; blocks above it are cleared anew each time.
  CHECK(mallopt(M_MMAP_THRESHOLD, 32 << 20) == 1);
  CHECK(mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max()) == 1);
  CHECK(mallopt(M_TOP_PAD, 64 << 20) == 1);
}

}  // namespace evermoe
