#include "faults/fault_points.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace evermoe {
namespace {

std::string names_of(bool (*is_one)(std::string_view)) {
  std::string names;
  for (const KnownFaultPoint& point : kFaultPoints) {
    if (is_one(point.name)) absl::StrAppend(&names, names.empty() ? "" : ", ", point.name);
  }
  return names;
}

}  // namespace

bool is_known_fault_point(std::string_view name) {
  return std::any_of(std::begin(kFaultPoints), std::end(kFaultPoints),
                     [&](const KnownFaultPoint& point) { return point.name == name; });
}

bool is_beside_the_step(std::string_view name) {
  return name.substr(0, 8) == "capture/" || name.substr(0, 5) == "copy/" || name == "save/copying";
}

bool is_between_updates(std::string_view name) {
  return is_known_fault_point(name) &&
         (name.substr(0, 5) == "step/" || name.substr(0, 9) == "catch_up/");
}

bool is_before_computing(std::string_view name) {
  return name == "step/forward" || name == "step/backward";
}

std::string known_fault_point_names() { return names_of(is_known_fault_point); }
std::string fault_points_between_updates() { return names_of(is_between_updates); }
std::string fault_points_before_computing() { return names_of(is_before_computing); }

}  // namespace evermoe
