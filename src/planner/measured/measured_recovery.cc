#include "planner/measured/measured_recovery.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {
namespace {

// A machine that got faster meanwhile gives nothing back.
double start_seconds(const LossProfile& loss) {
  return loss.view_seconds + std::max(0.0, loss.settle_seconds);
}

bool is_complete(const StrategyProfile& one) {
  return one.worker.failures > 0 && one.standby.failures > 0 && one.move.moves > 0;
}

}  // namespace

std::optional<MeasuredRecovery> measured_recovery(std::span<const StrategyProfile> strategies) {
  MeasuredRecovery sum;
  double count = 0;
  for (const StrategyProfile& one : strategies) {
    if (!is_complete(one)) continue;
    sum.detect_seconds += one.worker.detect_seconds;
    sum.restart_seconds += start_seconds(one.worker);
    sum.standby_seconds += start_seconds(one.standby);
    sum.migrate_seconds += one.move.switch_seconds + std::max(0.0, one.move.settle_seconds);
    ++count;
  }
  if (count == 0) return std::nullopt;
  for (double* seconds :
       {&sum.detect_seconds, &sum.restart_seconds, &sum.standby_seconds, &sum.migrate_seconds})
    *seconds /= count;
  return sum;
}

absl::StatusOr<ClusterSpec> with_recovery(ClusterSpec cluster, const RuntimeProfile& profile,
                                          const std::string& origin) {
  if (!profile.recovery)
    return InvalidInput(absl::StrCat(
        origin,
        ": recovery: found nothing, allowed: a table, which `evermoe profile --job` writes "
        "for a job on several nodes with a strategy that keeps copies in peers' memory"));
  RecoverySeconds& recovery = cluster.recovery;
  recovery.detect = profile.recovery->detect_seconds;
  recovery.restart = profile.recovery->restart_seconds;
  recovery.standby = profile.recovery->standby_seconds;
  recovery.migrate = profile.recovery->migrate_seconds;
  return cluster;
}

}  // namespace evermoe
