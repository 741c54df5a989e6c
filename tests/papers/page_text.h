// How docs/results.md writes numbers.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "planner/simulate/estimate.h"

namespace evermoe {

inline std::string fixed(double value, int digits) {
  return absl::StrFormat("%.*f", digits, value);
}
inline std::string signed_fixed(double value, int digits) {
  return absl::StrFormat("%+.*f", digits, value);
}
inline std::string percent(double share, int digits) {
  return absl::StrFormat("%.*f %%", digits, 100 * share);
}
// With its 95 % interval.
inline std::string with_interval(const Estimate& estimate, int digits) {
  return absl::StrCat(fixed(estimate.mean, digits), " ± ", fixed(estimate.half_width(), digits));
}

}  // namespace evermoe
