// What is not there is null in JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "base/ids.h"

namespace evermoe {

// JSON writes infinities and NaN as null too.
template <typename T>
nlohmann::ordered_json or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

// A step below 0 is none.
inline nlohmann::ordered_json or_null(Step step) {
  return step < Step(0) ? nlohmann::ordered_json() : nlohmann::ordered_json(step.value);
}

}  // namespace evermoe
