// How often to save to each tier, for people and for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "planner/plan/protection_plan.h"

namespace evermoe {

// For saves of the whole state of a plan's job, whatever protection the plan has chosen.
std::string tiers_text(const ProtectionPlan& plan);

// An object with "tiers", "waste" and "reasons", or with "refused" alone.
nlohmann::ordered_json tiers_json(const ProtectionPlan& plan);

}  // namespace evermoe
