// An experiment as one page that needs no network: planner/report/html_report.h.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "planner/measured/runtime_profile.h"
#include "planner/report/html_report.h"

namespace evermoe {

// Of report_of()'s object (docs/experiments.md). Measured against predicted ETTR, where the time
// went, recoveries by phase, tokens lost, tables with units, and what was assumed.
ReportPage experiment_page(const std::string& title, const nlohmann::json& report,
                           const std::optional<RuntimeProfile>& profile);

}  // namespace evermoe
