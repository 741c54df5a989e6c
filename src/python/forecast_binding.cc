#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "env/files.h"
#include "planner/plan/planner_input.h"
#include "planner/plan/protection_plan.h"
#include "planner/plan/what_if.h"
#include "planner/report/plan_report.h"
#include "planner/simulate/run_forecast.h"
#include "python/bindings.h"
#include "python/narrow.h"

namespace evermoe {
namespace {

namespace py = pybind11;

constexpr int kRunsMax = 1000, kGpusMax = 1 << 23;

template <typename T>
T value_or_throw(absl::StatusOr<T> result) {
  throw_if_error(result.status());
  return *std::move(result);
}

// What fails how often, and what a recovery costs; either may be empty (PlannerNames).
using Trouble = std::tuple<std::string, std::string>;

PlannerInput input_of(const std::string& model, const std::string& cluster, const Trouble& trouble,
                      const std::vector<std::string>& settings, const LayoutWishes& wishes) {
  const auto& [failures, recovery] = trouble;
  PlannerInput input = value_or_throw(load_planner_input(real_files(), {.model = model,
                                                                        .cluster = cluster,
                                                                        .failures = failures,
                                                                        .recovery = recovery,
                                                                        .settings = settings}));
  throw_if_error(apply_layout(wishes, input.job.model));
  return input;
}

// Sequences of a step, GPUs of a lane, and what is recomputed.
using Wishes = std::tuple<int64_t, int64_t, std::string>;
LayoutWishes wishes_of(const Wishes& wishes) {
  const auto& [sequences, tensor_parallel, recompute] = wishes;
  return {sequences, narrow(tensor_parallel, "tensor_parallel"), recompute};
}

int checked_runs(int64_t runs) {
  if (runs < 1 || runs > kRunsMax)
    throw_if_error(InvalidInput(absl::StrCat("runs: ", runs, " is not between 1 and ", kRunsMax)));
  return static_cast<int>(runs);
}

NodeReplacement replacement_of(const std::string& name) {
  for (const NodeReplacement replacement :
       {NodeReplacement::kRestart, NodeReplacement::kStandby, NodeReplacement::kElastic}) {
    if (name == to_string(replacement)) return replacement;
  }
  throw_if_error(
      InvalidInput(absl::StrCat("replacement: \"", name, "\" is not restart, standby or elastic")));
  return {};
}

// JSON: the package makes dictionaries of it.
std::string run(const std::string& model, const std::string& cluster, const Trouble& trouble,
                const std::vector<std::string>& settings, const Wishes& wishes,
                const std::string& replacement, int64_t runs, uint64_t seed) {
  const PlannerInput input = input_of(model, cluster, trouble, settings, wishes_of(wishes));
  const ForecastOptions options{.simulated_runs = checked_runs(runs),
                                .first_seed = seed,
                                .replacement = replacement_of(replacement),
                                .trace = input.trace ? &*input.trace : nullptr};
  return to_json(value_or_throw(forecast_run(input.job.model, input.job.protection,
                                             input.job.checkpoint, input.cluster, options)));
}

std::string plan(const std::string& model, const std::string& cluster, const Trouble& trouble,
                 const std::vector<std::string>& settings, const Wishes& wishes, int64_t copies,
                 int64_t window, double stall_share, double lost_share, bool elastic,
                 int64_t runs) {
  const PlannerInput input = input_of(model, cluster, trouble, settings, wishes_of(wishes));
  PlanBudget budget{.stall_share_max = stall_share,
                    .lost_share_max = lost_share,
                    .copies = narrow(copies, "copies"),
                    .window = narrow(window, "window"),
                    .elastic = elastic,
                    .simulated_runs = checked_runs(runs)};
  return to_json(value_or_throw(plan_protection({input.job.model, input.cluster, budget})));
}

std::string what_if(const std::string& model, const std::string& cluster, const Trouble& trouble,
                    const std::vector<std::string>& settings, const std::vector<int64_t>& gpus,
                    int64_t runs) {
  const PlannerInput input = input_of(model, cluster, trouble, settings, {});
  const std::vector<int> counts =
      gpus.empty() ? usual_scales(input.cluster.gpus_per_node) : narrow_all(gpus, "gpus");
  for (const int count : counts) {
    if (count < 1 || count > kGpusMax)
      throw_if_error(
          InvalidInput(absl::StrCat("gpus: ", count, " is not between 1 and ", kGpusMax)));
  }
  PlanInput request{input.job.model, input.cluster, {}};
  request.budget.simulated_runs = checked_runs(runs);
  return to_json(value_or_throw(what_if_scale(request, counts)));
}

}  // namespace

void bind_forecast(py::module_& module) {
  using Release = py::call_guard<py::gil_scoped_release>;
  module.def("forecast_run", &run, py::arg("model"), py::arg("cluster"), py::arg("trouble"),
             py::arg("settings"), py::arg("wishes"), py::arg("replacement"), py::arg("runs"),
             py::arg("seed"), Release());
  module.def("forecast_plan", &plan, py::arg("model"), py::arg("cluster"), py::arg("trouble"),
             py::arg("settings"), py::arg("wishes"), py::arg("copies"), py::arg("window"),
             py::arg("stall_share"), py::arg("lost_share"), py::arg("elastic"), py::arg("runs"),
             Release());
  module.def("forecast_what_if", &what_if, py::arg("model"), py::arg("cluster"), py::arg("trouble"),
             py::arg("settings"), py::arg("gpus"), py::arg("runs"), Release());
}

}  // namespace evermoe
