#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "experts/dispatch/replica_dispatch.h"
#include "experts/migration/expert_transfer.h"
#include "experts/migration/node_matching.h"
#include "experts/migration/rebalance.h"
#include "experts/placement/replica_allocation.h"
#include "experts/placement/replica_placement.h"
#include "experts/placement/survival.h"
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

std::pair<std::vector<int>, int> allocate(const Integers& loads, int64_t nodes, int64_t slots,
                                          int64_t faults) {
  auto plan = value_or_throw(allocate_replicas(loads, narrow(nodes, "nodes"),
                                               narrow(slots, "slots"), narrow(faults, "faults")));
  return {std::move(plan.replicas), plan.faults};
}

ExpertsOfNodes place(const Integers& replicas, int64_t nodes, int64_t slots,
                     const std::string& method, int64_t faults) {
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
    throw_if_error(
        InvalidInput(absl::StrCat("experts: ", experts, " is not between 1 and ", kExpertsMax)));
  }
  ExpertsOfNodes experts_of;
  for (const Integers& ids : experts_of_nodes)
    experts_of.push_back(narrow_all(ids, "experts_of_nodes"));
  return value_or_throw(survival_curve(experts_of, static_cast<int>(experts))).survived;
}

// By expert, source and destination ascending: (expert, source, destination, tokens) one after
// another.
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

ExpertsOfNodes checked_nodes(const std::vector<Integers>& nodes, int64_t experts,
                             const char* name) {
  ExpertsOfNodes experts_of;
  for (const Integers& ids : nodes) {
    experts_of.push_back(narrow_all(ids, name));
    for (const int expert : experts_of.back()) {
      if (expert < 0 || expert >= experts)
        throw_if_error(InvalidInput(absl::StrCat(name, ": ", expert, " is no expert")));
    }
  }
  return experts_of;
}

// By transfer, ascending: (round, source, destination, expert); by fetch that no node can serve:
// (expert, node); by node: what it holds afterwards.
using Quad = std::tuple<int, int, int, int>;
std::tuple<std::vector<Quad>, std::vector<std::pair<int, int>>, ExpertsOfNodes> migration(
    const std::vector<Integers>& held, const std::vector<Integers>& wanted, bool keeps_nodes) {
  if (held.size() != wanted.size())
    throw_if_error(InvalidInput(
        absl::StrCat("wanted: ", wanted.size(), " nodes, but held has ", held.size())));
  const ExpertsOfNodes now = checked_nodes(held, kExpertsMax, "held");
  ExpertsOfNodes then = checked_nodes(wanted, kExpertsMax, "wanted");
  if (!keeps_nodes) then = on_physical_nodes(then, match_nodes(now, then));
  const TransferPlan plan = plan_transfers(now, then);
  std::vector<Quad> transfers;
  for (const ExpertTransfer& one : plan.transfers)
    transfers.emplace_back(one.round, one.source, one.destination, one.expert);
  std::vector<std::pair<int, int>> unavailable;
  for (const ExpertFetch& one : plan.unavailable) unavailable.emplace_back(one.expert, one.node);
  return {std::move(transfers), std::move(unavailable), std::move(then)};
}

double slowdown(const std::vector<Integers>& experts_of_nodes, const std::vector<double>& loads) {
  const ExpertsOfNodes experts_of =
      checked_nodes(experts_of_nodes, std::ssize(loads), "experts_of_nodes");
  std::vector<bool> is_there(loads.size(), false);
  for (const auto& on_node : experts_of) {
    for (const int expert : on_node) is_there[static_cast<size_t>(expert)] = true;
  }
  for (size_t expert = 0; expert < loads.size(); ++expert) {
    if (!(loads[expert] >= 0 && std::isfinite(loads[expert])))
      throw_if_error(
          InvalidInput(absl::StrCat("loads: ", loads[expert], " is not zero or positive")));
    if (loads[expert] > 0 && !is_there[expert])
      throw_if_error(
          InvalidInput(absl::StrCat("loads: expert ", expert, " has load and is on no node")));
  }
  return expert_slowdown(experts_of, loads);
}

// (move, step of the last move, evaluations that counted, reason).
std::tuple<bool, int64_t, int, std::string> rebalance(int64_t now, int64_t moved, int64_t count,
                                                      double slowdown_now, double slowdown_after,
                                                      double balanced_s, double migration_s,
                                                      double gain_start, double gain_stop,
                                                      int64_t evaluations, int64_t pause_steps,
                                                      int64_t payback_steps) {
  if (!(slowdown_now >= 1 && slowdown_after >= 1 && std::isfinite(slowdown_now) &&
        std::isfinite(slowdown_after))) {
    throw_if_error(InvalidInput("slowdown_now, slowdown_after: must be finite and at least 1"));
  }
  if (!(balanced_s >= 0 && migration_s >= 0 && gain_stop > 0 && gain_start >= gain_stop)) {
    throw_if_error(InvalidInput(
        "balanced_s, migration_s must not be negative, and gain_start not below gain_stop > 0"));
  }
  const RebalanceOutlook outlook{.slowdown_now = slowdown_now,
                                 .slowdown_after = slowdown_after,
                                 .balanced_seconds = balanced_s,
                                 .migration_seconds = migration_s};
  const RebalanceOptions options{gain_start, gain_stop, narrow(evaluations, "evaluations"),
                                 pause_steps, payback_steps};
  const RebalanceDecision decision = decide_rebalance(
      Step{now}, {.moved = Step{moved}, .count = narrow(count, "count")}, outlook, options);
  return {decision.move, decision.state.moved.value, decision.state.count, decision.reason};
}

}  // namespace

void bind_placement(py::module_& module) {
  using Release = py::call_guard<py::gil_scoped_release>;
  module.def("allocate", &allocate, py::arg("loads"), py::arg("nodes"), py::arg("slots"),
             py::arg("faults"), Release());
  module.def("place", &place, py::arg("replicas"), py::arg("nodes"), py::arg("slots"),
             py::arg("method"), py::arg("faults"), Release());
  module.def("survival", &survival, py::arg("experts_of_nodes"), py::arg("experts"), Release());
  module.def("dispatch", &dispatch, py::arg("ranks"), py::arg("experts"), py::arg("tokens"),
             py::arg("replicas"), py::arg("hosts"), Release());
  module.def("migration", &migration, py::arg("held"), py::arg("wanted"), py::arg("keeps_nodes"),
             Release());
  module.def("slowdown", &slowdown, py::arg("experts_of_nodes"), py::arg("loads"), Release());
  module.def("rebalance", &rebalance, py::arg("now"), py::arg("moved"), py::arg("count"),
             py::arg("slowdown_now"), py::arg("slowdown_after"), py::arg("balanced_s"),
             py::arg("migration_s"), py::arg("gain_start"), py::arg("gain_stop"),
             py::arg("evaluations"), py::arg("pause_steps"), py::arg("payback_steps"), Release());
}

}  // namespace evermoe
