#include "config/key_builders.h"

#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace evermoe {

std::string IntegerRange::to_string() const {
  const std::string kind =
      multiple_of == 1 ? "integer" : absl::StrCat("multiple of ", multiple_of);
  if (max == std::numeric_limits<int64_t>::max()) return absl::StrCat(kind, ", at least ", min);
  return absl::StrCat(kind, " from ", min, " to ", max);
}

bool NumberRange::contains(double value) const {
  const bool above = min_open ? value > min : value >= min;
  const bool below = max_open ? value < max : value <= max;
  return above && below;
}

std::string NumberRange::to_string() const {
  return absl::StrCat("number x with ", min, min_open ? " < x" : " <= x", max_open ? " < " : " <= ",
                      max);
}

std::string number_to_toml(double value) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  // TOML tells numbers from integers by the point or the exponent.
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

bool read_number(const FoundValue& found, double& into) {
  if (const double* value = std::get_if<double>(&found.value)) {
    into = *value;
    return std::isfinite(into);
  }
  if (const int64_t* value = std::get_if<int64_t>(&found.value)) {
    into = static_cast<double>(*value);
    return true;
  }
  return false;
}

}  // namespace evermoe
