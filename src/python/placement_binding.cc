#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "placement/replica_allocation.h"
#include "placement/replica_dispatch.h"
#include "placement/replica_placement.h"
#include "placement/survival.h"
#include "python/bindings.h"
#include "python/narrow.h"

namespace evermoe {
namespace {

namespace py = pybind11;
using Integers = std::vector<int64_t>;

// survival_curve() has a set of nodes for each.
constexpr int64_t kExpertsMax = int64_t{1} << 16;

template <typename T>
T value_or_throw(absl::StatusOr<T> result) {
  throw_if_error(result.status());
  return *std::move(result);
}

std::pair<std::vector<int>, int> allocate(const Integers& loads, int64_t nodes, int64_t slots, int64_t faults) {
  auto plan = value_or_throw(
      allocate_replicas(loads, narrow(nodes, "nodes"), narrow(slots, "slots"), narrow(faults, "faults")));
  return {std::move(plan.replicas), plan.faults};
}

ExpertsOfNodes place(const Integers& replicas, int64_t nodes, int64_t slots, const std::string& method,
                     int64_t faults) {
  PlacementOptions options;
  options.method = value_or_throw(parse_placement_method(method));
  options.faults = narrow(faults, "faults");
  if (options.faults < 0) throw_if_error(InvalidInput("faults: must not be negative"));
  return value_or_throw(place_replicas(narrow_all(replicas, "replicas"), narrow(nodes, "nodes"),
                                       narrow(slots, "slots"), options))
      .experts_of;
}

std::vector<double> survival(const std::vector<Integers>& experts_of_nodes, int64_t experts) {
  if (experts < 1 || experts > kExpertsMax) {
    throw_if_error(InvalidInput(absl::StrCat("experts: ", experts, " is not between 1 and ", kExpertsMax)));
  }
  ExpertsOfNodes experts_of;
  for (const Integers& ids : experts_of_nodes) experts_of.push_back(narrow_all(ids, "experts_of_nodes"));
  return value_or_throw(survival_curve(experts_of, static_cast<int>(experts))).survived;
}

// By expert, source and destination ascending: (expert, source, destination, tokens) one after another.
Integers dispatch(int64_t ranks, int64_t experts, const Integers& tokens, const Integers& replicas,
                  const Integers& hosts) {
  const std::vector<int> held = narrow_all(replicas, "replicas");
  const std::vector<int> host_of = narrow_all(hosts, "hosts");
  const DispatchProblem problem{.ranks = narrow(ranks, "ranks"),
                                .experts = narrow(experts, "experts"),
                                .tokens = tokens,
                                .replicas = held,
                                .host_of = host_of};
  Integers cells;
  for (const DispatchCell& cell : value_or_throw(ReplicaDispatch::create(problem)).all()) {
    cells.insert(cells.end(), {cell.expert, cell.source, cell.destination, cell.tokens});
  }
  return cells;
}

}  // namespace

void bind_placement(py::module_& module) {
  using Release = py::call_guard<py::gil_scoped_release>;
  module.def("allocate", &allocate, py::arg("loads"), py::arg("nodes"), py::arg("slots"), py::arg("faults"),
             Release());
  module.def("place", &place, py::arg("replicas"), py::arg("nodes"), py::arg("slots"), py::arg("method"),
             py::arg("faults"), Release());
  module.def("survival", &survival, py::arg("experts_of_nodes"), py::arg("experts"), Release());
  module.def("dispatch", &dispatch, py::arg("ranks"), py::arg("experts"), py::arg("tokens"), py::arg("replicas"),
             py::arg("hosts"), Release());
}

}  // namespace evermoe
