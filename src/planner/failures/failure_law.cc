#include "planner/failures/failure_law.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"

namespace evermoe {
namespace {

constexpr double kHour = 3600, kSecondsMax = 3.6e12, kLifeLeast = 1e-3;

// `seconds` in hours, as the key of a cluster's file has it.
absl::Status hours_in_range(const char* key, double seconds, double least_seconds) {
  if (seconds >= least_seconds && seconds <= kSecondsMax) return absl::OkStatus();
  return InvalidInput(absl::StrCat("failures.", key, ": found ", seconds / kHour, ", allowed: ",
                                   least_seconds / kHour, " to ", kSecondsMax / kHour));
}

absl::Status in_range(const char* key, double value, double least, double most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return InvalidInput(
      absl::StrCat("failures.", key, ": found ", value, ", allowed: ", least, " to ", most));
}

}  // namespace

absl::Status check(const FailureLaw& law, int racks) {
  RETURN_IF_ERROR(hours_in_range("node_mtbf_hours", law.node_mtbf_seconds, kLifeLeast));
  RETURN_IF_ERROR(in_range("shape", law.shape, 0.1, 20));
  RETURN_IF_ERROR(hours_in_range("repair_hours", law.repair_seconds, 0));
  RETURN_IF_ERROR(in_range("crash_share", law.crash_share, 0, 1));
  RETURN_IF_ERROR(in_range("announced_share", law.announced_share, 0, 1));
  RETURN_IF_ERROR(hours_in_range("rack_mtbf_hours", law.rack_mtbf_seconds, 0));
  RETURN_IF_ERROR(hours_in_range("rack_repair_hours", law.rack_repair_seconds, 0));
  RETURN_IF_ERROR(hours_in_range("whole_job_node_hours", law.whole_job_node_seconds, 0));
  if (law.rack_mtbf_seconds > 0 && racks < 1) {
    return InvalidInput(
        absl::StrCat("failures.rack_mtbf_hours: found ", law.rack_mtbf_seconds / kHour,
                     ", allowed: 0 where cluster.racks does not say how many racks there are"));
  }
  return absl::OkStatus();
}

double failure_rate(const FailureLaw& law, int nodes, int racks) {
  CHECK(law.node_mtbf_seconds > 0);
  const double of_racks = law.rack_mtbf_seconds > 0 ? racks / law.rack_mtbf_seconds : 0;
  return nodes / law.node_mtbf_seconds + of_racks + whole_job_failure_rate(law, nodes);
}

double whole_job_failure_rate(const FailureLaw& law, int nodes) {
  return law.whole_job_node_seconds > 0 ? nodes / law.whole_job_node_seconds : 0;
}

FailureLaw scaled(FailureLaw law, double factor) {
  CHECK(factor > 0) << factor;
  law.node_mtbf_seconds /= factor;
  law.rack_mtbf_seconds /= factor;
  law.whole_job_node_seconds /= factor;
  return law;
}

double availability(const FailureLaw& law, int racks) {
  const double down = (1 - law.crash_share) * law.repair_seconds;
  double up = law.node_mtbf_seconds / (law.node_mtbf_seconds + down);
  if (racks > 0 && law.rack_mtbf_seconds > 0) {
    up *= law.rack_mtbf_seconds / (law.rack_mtbf_seconds + law.rack_repair_seconds);
  }
  return up;
}

}  // namespace evermoe
