#include "cli/experiment/experiment_numbers.h"

#include <cmath>

#include "absl/strings/str_format.h"
#include "planner/report/amount_text.h"

namespace evermoe {

double run_number(const nlohmann::json& object, const std::string& name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : kGap;
}

std::string share_text(double share) {
  return std::isnan(share) ? kUnknown : percent_text(share, 1);
}

std::string points_text(double share) {
  return std::isnan(share) ? kUnknown : absl::StrFormat("%+.1f", 100 * share);
}

}  // namespace evermoe
