// The parts that plans and forecasts have in common, as JSON. Numbers are in SI units.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "planner/cost/step_forecast.h"
#include "planner/simulate/estimate.h"
#include "planner/simulate/run_forecast.h"

namespace evermoe {

nlohmann::ordered_json as_json(const Estimate& estimate);
nlohmann::ordered_json as_json(const RunEstimates& estimates);
nlohmann::ordered_json as_json(const RunStrategy& strategy);
nlohmann::ordered_json as_json(const JobLayout& layout, const StepForecast& step);
nlohmann::ordered_json as_json(const RunForecast& forecast);

}  // namespace evermoe
