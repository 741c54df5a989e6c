#include <pybind11/pybind11.h>

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "checkpoint/interval.h"
#include "python/bindings.h"

namespace evermoe {
namespace {

namespace py = pybind11;

void require_positive(double value, const char* name) {
  if (!(value > 0 && std::isfinite(value))) {
    throw_if_error(InvalidInput(absl::StrCat(name, ": ", value, " is not a positive time")));
  }
}

IntervalCosts checked_costs(double cost_s, double mtbf_s, double restart_s) {
  require_positive(cost_s, "cost_s");
  require_positive(mtbf_s, "mtbf_s");
  if (!(restart_s >= 0 && std::isfinite(restart_s))) {
    throw_if_error(InvalidInput(absl::StrCat("restart_s: ", restart_s, " is not zero or a positive time")));
  }
  if (cost_s / mtbf_s == 0) throw_if_error(InvalidInput("cost_s: nothing against mtbf_s"));
  return {.save_seconds = cost_s, .mtbf_seconds = mtbf_s, .restart_seconds = restart_s};
}

double optimal_interval(double cost_s, double mtbf_s, double restart_s, const std::string& method) {
  const IntervalCosts costs = checked_costs(cost_s, mtbf_s, restart_s);
  if (method == "young") return young_interval_seconds(costs);
  if (method == "daly") return daly_first_order_interval_seconds(costs);
  if (method == "daly_higher") return daly_higher_order_interval_seconds(costs);
  if (method != "exact") {
    throw_if_error(InvalidInput(absl::StrCat("method: \"", method, "\" is not young, daly, daly_higher or exact")));
  }
  return best_interval_seconds(costs);
}

double training_share(double work_s, double cost_s, double mtbf_s, double restart_s) {
  const IntervalCosts costs = checked_costs(cost_s, mtbf_s, restart_s);
  require_positive(work_s, "work_s");
  return efficiency(work_s, costs);
}

}  // namespace

void bind_interval(py::module_& module) {
  module.def("optimal_interval", &optimal_interval, py::arg("cost_s"), py::arg("mtbf_s"), py::arg("restart_s"),
             py::arg("method"));
  module.def("efficiency", &training_share, py::arg("work_s"), py::arg("cost_s"), py::arg("mtbf_s"),
             py::arg("restart_s"));
}

}  // namespace evermoe
