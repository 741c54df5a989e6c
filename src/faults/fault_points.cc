#include "faults/fault_points.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace evermoe {

bool is_known_fault_point(std::string_view name) {
  return std::any_of(std::begin(kFaultPoints), std::end(kFaultPoints),
                     [&](const KnownFaultPoint& point) { return point.name == name; });
}

std::string known_fault_point_names() {
  std::string names;
  for (const KnownFaultPoint& point : kFaultPoints) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", point.name);
  }
  return names;
}

bool is_between_updates(std::string_view name) {
  return is_known_fault_point(name) &&
         (name.substr(0, 5) == "step/" || name.substr(0, 9) == "catch_up/");
}

std::string fault_points_between_updates() {
  std::string names;
  for (const KnownFaultPoint& point : kFaultPoints) {
    if (is_between_updates(point.name))
      absl::StrAppend(&names, names.empty() ? "" : ", ", point.name);
  }
  return names;
}

}  // namespace evermoe
