#include "tensor/compute_threads.h"

#include <ATen/Parallel.h>
#include <sys/resource.h>

#include <algorithm>

namespace evermoe {
namespace {

// Half the weight of another thread. That is enough (docs/benchmarks.md, "Moves"), and takes little
// from training where somebody else's programs run on the machine.
constexpr int kNicer = 3, kNicest = 19;

}  // namespace

void set_compute_threads(int threads) { at::set_num_threads(threads); }

void set_compute_priority(ComputePriority priority) {
  // As the process was started; on Linux a niceness is a thread's.
  static const int usual = ::getpriority(PRIO_PROCESS, 0);
  const bool gives_way = priority == ComputePriority::kGivesWay;
  const int wanted = gives_way ? std::min(usual + kNicer, kNicest) : usual;
  at::parallel_for(0, at::get_num_threads(), 1, [wanted](int64_t, int64_t) {
    if (::getpriority(PRIO_PROCESS, 0) != wanted) ::setpriority(PRIO_PROCESS, 0, wanted);
  });
}

}  // namespace evermoe
