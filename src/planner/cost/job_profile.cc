#include "planner/cost/job_profile.h"

#include <algorithm>

namespace evermoe {

double JobProfile::rank_state_bytes() const {
  double most = 0;
  for (const std::vector<OperatorProfile>& operators : operators_of_stage) {
    double sum = 0;
    for (const OperatorProfile& op : operators) sum += static_cast<double>(op.cost.full_bytes);
    most = std::max(most, sum);
  }
  return most;
}

}  // namespace evermoe
