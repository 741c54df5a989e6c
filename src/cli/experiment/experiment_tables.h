// The tables of an experiment's page (experiment_page.h). `report` is report_of()'s object.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "planner/measured/runtime_profile.h"
#include "planner/report/html_report.h"

namespace evermoe {

// Measured and predicted means, by failure process and system in these orders.
ReportTable summary_table(const nlohmann::json& report, const std::vector<std::string>& processes,
                          const std::vector<std::string>& systems);
// A row for each run: what it came to.
ReportTable run_table(const nlohmann::json& report);
// A row for each run: what protection took.
ReportTable cost_table(const nlohmann::json& report);
ReportTable profile_table(const RuntimeProfile& profile);

}  // namespace evermoe
