// A protection plan for people, for programs, and for a job's configuration.
#pragma once

#include <string>

#include "planner/plan/protection_plan.h"

namespace evermoe {

std::string to_text(const ProtectionPlan& plan);

// One JSON object, numbers in SI units.
std::string to_json(const ProtectionPlan& plan);

// The tables [protection], [checkpoint] and [run] of a job's configuration, which parse_config()
// reads: of the best plan that the runtime can run today. A better one that it cannot is a comment.
std::string to_toml(const ProtectionPlan& plan);

}  // namespace evermoe
