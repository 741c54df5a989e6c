#include "forecast/failure_law.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"

namespace evermoe {
namespace {

absl::Status in_range(const char* name, double value, double least, double most, const char* allowed) {
  if (value >= least && value <= most) return absl::OkStatus();
  return InvalidInput(absl::StrCat("failure law: ", name, ": found ", value, ", allowed: ", allowed));
}

constexpr double kSecondsMax = 1e12;

}  // namespace

absl::Status check(const FailureLaw& law, int racks) {
  RETURN_IF_ERROR(in_range("node_mtbf_seconds", law.node_mtbf_seconds, 1e-3, kSecondsMax, "0.001 to 1e12"));
  RETURN_IF_ERROR(in_range("shape", law.shape, 0.1, 20, "0.1 to 20"));
  RETURN_IF_ERROR(in_range("repair_seconds", law.repair_seconds, 0, kSecondsMax, "0 to 1e12"));
  RETURN_IF_ERROR(in_range("crash_share", law.crash_share, 0, 1, "0 to 1"));
  RETURN_IF_ERROR(in_range("announced_share", law.announced_share, 0, 1, "0 to 1"));
  RETURN_IF_ERROR(in_range("rack_mtbf_seconds", law.rack_mtbf_seconds, 0, kSecondsMax, "0 to 1e12"));
  RETURN_IF_ERROR(in_range("rack_repair_seconds", law.rack_repair_seconds, 0, kSecondsMax, "0 to 1e12"));
  if (law.rack_mtbf_seconds > 0 && racks < 1) {
    return InvalidInput("failure law: rack_mtbf_seconds: found a value, allowed: 0 where there are no racks");
  }
  return absl::OkStatus();
}

double failure_rate(const FailureLaw& law, int nodes, int racks) {
  CHECK(law.node_mtbf_seconds > 0);
  const double of_racks = law.rack_mtbf_seconds > 0 ? racks / law.rack_mtbf_seconds : 0;
  return nodes / law.node_mtbf_seconds + of_racks;
}

FailureLaw scaled(FailureLaw law, double factor) {
  CHECK(factor > 0) << factor;
  law.node_mtbf_seconds /= factor;
  law.rack_mtbf_seconds /= factor;
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
