#include "cli/reports/place_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "experts/migration/rebalance.h"
#include "experts/placement/replica_domains.h"
#include "planner/failures/availability.h"

namespace evermoe {
namespace {

absl::Status wrong(const char* name, int64_t found, int64_t least, int64_t most) {
  return InvalidInput(
      absl::StrCat("place: ", name, ": found ", found, ", allowed: ", least, " to ", most));
}

std::optional<SurvivalCurve> curve_of(const ExpertsOfNodes& experts_of, size_t experts) {
  absl::StatusOr<SurvivalCurve> curve = survival_curve(experts_of, static_cast<int>(experts));
  if (!curve.ok()) return std::nullopt;
  return *std::move(curve);
}

absl::StatusOr<ReplicaPlacement> placed_by(const PlaceRequest& request,
                                           const std::vector<int>& replicas,
                                           PlacementMethod method) {
  return place_replicas(replicas, request.nodes, request.slots, {.method = method});
}

// Gives the plan's nodes to nodes in racks, so that replicas of an expert are in different ones.
void spread_over_racks(PlaceReport& report) {
  const int nodes = report.request.nodes;
  std::vector<DomainPath> paths;
  std::vector<int> rack_of_node;
  for (int node = 0; node < nodes; ++node) {
    rack_of_node.push_back(rack_of(node, nodes, report.request.racks));
    paths.push_back({.rack = absl::StrCat("rack", rack_of_node.back())});
  }
  const FailureDomains domains(paths);
  const ExpertsOfNodes plan = report.placement.experts_of;
  const DomainMatching matched = match_nodes_over_domains(
      report.request.held ? report.request.held->experts_of : ExpertsOfNodes(plan.size()), plan,
      domains, {.level = DomainLevel::kRack, .domains = 2});
  report.placement.experts_of = on_physical_nodes(plan, matched.matching);
  report.too_close = matched.too_close;
  report.rack_survival = curve_of(experts_of_domains(report.placement.experts_of, rack_of_node),
                                  report.request.loads.size());
}

nlohmann::ordered_json migration_json(const HeldExperts& held, const TransferPlan& plan) {
  nlohmann::ordered_json json = {{"nodes_before", held.numbers},
                                 {"rounds", plan.rounds},
                                 {"sent_most", plan.sent_max},
                                 {"received_most", plan.received_max}};
  json["transfers"] = json["unavailable"] = nlohmann::ordered_json::array();
  for (const ExpertTransfer& one : plan.transfers)
    json["transfers"].push_back({{"round", one.round},
                                 {"source", one.source},
                                 {"destination", one.destination},
                                 {"expert", one.expert}});
  for (const ExpertFetch& one : plan.unavailable)
    json["unavailable"].push_back({{"expert", one.expert}, {"node", one.node}});
  return json;
}

nlohmann::ordered_json probabilities(const std::optional<SurvivalCurve>& curve) {
  return curve ? nlohmann::ordered_json(curve->survived) : nlohmann::ordered_json();
}

}  // namespace

absl::Status check(const PlaceRequest& request) {
  if (request.loads.empty())
    return InvalidInput("place: found no experts, allowed: --experts or --loads");
  if (request.nodes < 1 || request.nodes > kSurvivalNodesMax)
    return wrong("--nodes", request.nodes, 1, kSurvivalNodesMax);
  const auto experts = static_cast<int64_t>(request.loads.size());
  const int64_t slots_least = (experts + request.nodes - 1) / request.nodes;
  const int64_t slots_most = kPlacedSlotsMax / request.nodes;
  if (request.slots < slots_least || request.slots > slots_most)
    return wrong("--slots", request.slots, slots_least, slots_most);
  if (request.faults < 1 || request.faults > request.nodes)
    return wrong("--faults", request.faults, 1, request.nodes);
  if (request.racks < 0 || request.racks > request.nodes)
    return wrong("--racks", request.racks, 0, request.nodes);
  return absl::OkStatus();
}

absl::StatusOr<PlaceReport> report_placement(const PlaceRequest& request) {
  RETURN_IF_ERROR(check(request));
  PlaceReport report{.request = request};
  ASSIGN_OR_RETURN(report.allocation,
                   allocate_replicas(request.loads, request.nodes, request.slots, request.faults));
  for (const PlacementMethod method : {PlacementMethod::kMroQ, PlacementMethod::kMro,
                                       PlacementMethod::kSpread, PlacementMethod::kCompact}) {
    ASSIGN_OR_RETURN(ReplicaPlacement placed,
                     placed_by(request, report.allocation.replicas, method));
    report.methods.push_back(
        {method, placed.distinct_least, curve_of(placed.experts_of, request.loads.size())});
    if (method == request.method) report.placement = std::move(placed);
  }
  if (request.racks > 0) {
    spread_over_racks(report);
  } else if (request.held) {
    const ExpertsOfNodes plan = report.placement.experts_of;
    report.placement.experts_of =
        on_physical_nodes(plan, match_nodes(request.held->experts_of, plan));
  }
  if (request.held)
    report.transfers = plan_transfers(request.held->experts_of, report.placement.experts_of);
  const std::vector<double> shares(request.loads.begin(), request.loads.end());
  report.slowdown = expert_slowdown(report.placement.experts_of, shares);
  report.survival = curve_of(report.placement.experts_of, request.loads.size());
  return report;
}

std::string to_json(const PlaceReport& report) {
  nlohmann::ordered_json json = {{"experts", report.request.loads.size()},
                                 {"nodes", report.request.nodes},
                                 {"slots", report.request.slots},
                                 {"method", std::string(to_string(report.request.method))},
                                 {"replicas", report.allocation.replicas},
                                 {"replicas_least", report.allocation.faults},
                                 {"distinct_nodes_least", report.placement.distinct_least},
                                 {"slowdown", report.slowdown},
                                 {"experts_of_nodes", report.placement.experts_of},
                                 {"survival_by_lost_nodes", probabilities(report.survival)}};
  if (report.survival)
    json["loss_by_lost_nodes"] =
        report.survival->lost;  // exact where survival is 1 to the last digit
  if (report.request.racks > 0) {
    json["survival_by_lost_racks"] = probabilities(report.rack_survival);
    json["experts_in_one_rack"] = report.too_close;
  }
  if (report.transfers) json["migration"] = migration_json(*report.request.held, *report.transfers);
  for (const PlaceReport::Method& other : report.methods) {
    json["methods"][std::string(to_string(other.method))] = {
        {"distinct_nodes_least", other.distinct_least},
        {"survival_by_lost_nodes", probabilities(other.survival)}};
  }
  return json.dump(2) + "\n";
}

}  // namespace evermoe
