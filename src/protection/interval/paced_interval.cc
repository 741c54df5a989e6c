#include "protection/interval/paced_interval.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "protection/interval/save_pace.h"

namespace evermoe {

int64_t paced_interval(const SaveSteps& save, double overhead_budget) {
  CHECK(overhead_budget > 0) << overhead_budget;
  const double interval = std::ceil(std::max({1.0, save.to_disk, save.longer / overhead_budget}));
  return static_cast<int64_t>(std::min(interval, static_cast<double>(SavePace::kIntervalMax)));
}

}  // namespace evermoe
