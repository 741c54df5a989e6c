#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "protection/interval/interval.h"
#include "protection/interval/tier_intervals.h"
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
    throw_if_error(
        InvalidInput(absl::StrCat("restart_s: ", restart_s, " is not zero or a positive time")));
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
    throw_if_error(InvalidInput(
        absl::StrCat("method: \"", method, "\" is not young, daly, daly_higher or exact")));
  }
  return best_interval_seconds(costs);
}

double training_share(double work_s, double cost_s, double mtbf_s, double restart_s) {
  const IntervalCosts costs = checked_costs(cost_s, mtbf_s, restart_s);
  require_positive(work_s, "work_s");
  return efficiency(work_s, costs);
}

// By tier, weakest first: name, seconds of a save, seconds of a restart, shortest seconds between
// saves. By kind of failure: name, mean seconds between, index of the weakest tier that survives
// it.
using TierTuple = std::tuple<std::string, double, double, double>;
using FailureTuple = std::tuple<std::string, double, int64_t>;
// By tier in use: its index, seconds of work between saves, and every how many saves of the tier
// below.
using IntervalTuple = std::tuple<int, double, int64_t>;

void require_not_negative(double value, const std::string& name) {
  if (!(value >= 0 && std::isfinite(value)))
    throw_if_error(
        InvalidInput(absl::StrCat(name, ": ", value, " is not zero or a positive time")));
}

std::tuple<std::vector<IntervalTuple>, double, std::vector<std::string>> tier_intervals(
    const std::vector<TierTuple>& tiers, const std::vector<FailureTuple>& failures) {
  if (tiers.empty() || std::ssize(tiers) > kTiersMax)
    throw_if_error(
        InvalidInput(absl::StrCat("tiers: ", tiers.size(), " is not between 1 and ", kTiersMax)));
  if (failures.empty()) throw_if_error(InvalidInput("failures: none given"));
  std::vector<CheckpointTier> stores;
  for (const auto& [name, save, restart, shortest] : tiers) {
    require_not_negative(save, absl::StrCat(name, ".save_s"));
    require_not_negative(restart, absl::StrCat(name, ".restart_s"));
    require_positive(shortest, absl::StrCat(name, ".shortest_s").c_str());
    stores.push_back({name, save, restart, shortest});
  }
  std::vector<FailureKind> kinds;
  for (const auto& [name, mtbf, weakest] : failures) {
    require_positive(mtbf, absl::StrCat(name, ".mtbf_s").c_str());
    if (weakest < 0 || weakest >= std::ssize(tiers))
      throw_if_error(InvalidInput(absl::StrCat(name, ": survived by no tier")));
    kinds.push_back({name, mtbf, static_cast<int>(weakest)});
  }
  const auto planned = plan_tier_intervals(stores, kinds);
  if (const auto* why = std::get_if<TierPlanInfeasible>(&planned))
    throw_if_error(InvalidInput(why->reason));
  const TierPlan& plan = std::get<TierPlan>(planned);
  std::vector<IntervalTuple> intervals;
  for (const TierInterval& interval : plan.intervals)
    intervals.emplace_back(interval.tier, interval.work_seconds, interval.every);
  return {std::move(intervals), plan.waste, plan.reasons};
}

}  // namespace

void bind_interval(py::module_& module) {
  module.def("optimal_interval", &optimal_interval, py::arg("cost_s"), py::arg("mtbf_s"),
             py::arg("restart_s"), py::arg("method"));
  module.def("efficiency", &training_share, py::arg("work_s"), py::arg("cost_s"), py::arg("mtbf_s"),
             py::arg("restart_s"));
  module.def("tier_intervals", &tier_intervals, py::arg("tiers"), py::arg("failures"),
             py::call_guard<py::gil_scoped_release>());
}

}  // namespace evermoe
