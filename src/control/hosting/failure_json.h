// A failure as JSON: in the summary of a run (docs/run-summary.md), and for the next host.
#pragma once

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "control/controller/failure_record.h"

namespace evermoe {

nlohmann::ordered_json failure_json(const FailureRecord& failure);
// Corrupt unless it is what failure_json() makes.
absl::StatusOr<FailureRecord> failure_from(const nlohmann::json& json);

}  // namespace evermoe
