// Amounts as reports show them to people.
#pragma once

#include <string>

#include "planner/cluster_model/cluster_spec.h"
#include "planner/cost/step_forecast.h"
#include "planner/simulate/estimate.h"

namespace evermoe {

std::string duration_text(double seconds);  // "850 ms", "12.3 s", "4.5 min", "2.1 h", "12.8 days"
std::string bytes_text(double bytes);       // "3.2 GB"; decimal, like links and memories
std::string count_text(double count);       // "1.05 M"
std::string percent_text(double share, int digits = 2);           // "97.31 %"
std::string percent_text(const Estimate& share, int digits = 2);  // "97.31 % (97.10 to 97.52)"
std::string layout_text(
    const JobLayout& layout);  // "16 stages of 128 lanes, 2 replicas of each expert"
// "4096 micro-batches of 1 sequence, 16.8 M tokens a step (chosen: ...)"
std::string batch_text(const JobLayout& layout, double tokens_per_step, const std::string& origin);
// "one every 28.8 h, of the whole job at once every 24.7 days, 10 % of the nodes' that need
// repair announced"
std::string failures_text(const ClusterSpec& cluster);
// By day: "0.83 interruptions and 0.09 moves".
std::string stops_text(const RunEstimates& runs);

}  // namespace evermoe
