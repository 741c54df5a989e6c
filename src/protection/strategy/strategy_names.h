// Strategies by their names in configurations, experiments and profiles.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "protection/strategy/strategy.h"

namespace evermoe {

// nullopt: no strategy has this name.
std::optional<StrategyKind> strategy_kind_of(std::string_view name);

// All of them, as an error says what is allowed: "sparse, dense, ...".
std::string strategy_names();

}  // namespace evermoe
