// What a profile of a job says to forecasts of others: the parts of recoveries that do not grow
// with the state, in place of what papers report.
#pragma once

#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "planner/cluster_model/cluster_spec.h"
#include "planner/measured/runtime_profile.h"

namespace evermoe {

// Means over the strategies of which losses with and without a standby, and moves, were all
// measured. A restart is the start of one process and what the first steps with it took longer, a
// standby the same; a move its switch and what the next step took longer. The state's way is in
// none of them: forecasts have that from its bytes and the links. nullopt: there is no such
// strategy.
std::optional<MeasuredRecovery> measured_recovery(std::span<const StrategyProfile> strategies);

// The cluster with the profile's [recovery]; what is not measured (elastic jobs) stays.
// InvalidInput, with `origin`, if the profile has none.
absl::StatusOr<ClusterSpec> with_recovery(ClusterSpec cluster, const RuntimeProfile& profile,
                                          const std::string& origin);

}  // namespace evermoe
