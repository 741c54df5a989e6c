#include "protection/strategy/strategy_names.h"

namespace evermoe {

std::optional<StrategyKind> strategy_kind_of(std::string_view name) {
  for (const StrategyKind kind : kStrategyKinds) {
    if (to_string(kind) == name) return kind;
  }
  return std::nullopt;
}

std::string strategy_names() {
  std::string names;
  for (const StrategyKind kind : kStrategyKinds) {
    if (!names.empty()) names += ", ";
    names += to_string(kind);
  }
  return names;
}

}  // namespace evermoe
