// What happened to a job, but for its failures (failure_json.h), as JSON: in the summary of a run
// (docs/run-summary.md), and for the next host. What reads it back is Corrupt unless it is what the
// other function makes.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "absl/status/statusor.h"
#include "control/controller/controller_interface.h"
#include "control/controller/moves/move_record.h"
#include "control/controller/stragglers/slowness_records.h"
#include "experts/migration/expert_balance.h"

namespace evermoe {

nlohmann::ordered_json change_json(const LanesChanged& change);
absl::StatusOr<LanesChanged> change_from(const nlohmann::json& json);

nlohmann::ordered_json rebalance_json(const ExpertMove& move);
absl::StatusOr<ExpertMove> rebalance_from(const nlohmann::json& json);

// With moments since the run of its host began.
nlohmann::ordered_json move_json(const MoveRecord& record);
absl::StatusOr<MoveRecord> move_from(const nlohmann::json& json);

nlohmann::ordered_json straggler_json(const StragglerRecord& straggler);
absl::StatusOr<StragglerRecord> straggler_from(const nlohmann::json& json);

nlohmann::ordered_json slow_link_json(const SlowLinkRecord& link);
absl::StatusOr<SlowLinkRecord> slow_link_from(const nlohmann::json& json);

// Each of them.
template <typename T>
nlohmann::ordered_json json_list(const std::vector<T>& all,
                                 nlohmann::ordered_json (*to_json)(const T& one)) {
  auto list = nlohmann::ordered_json::array();
  for (const T& one : all) list.push_back(to_json(one));
  return list;
}

}  // namespace evermoe
