#include "papers/lazarus_comparison.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "experts/migration/expert_transfer.h"
#include "experts/migration/node_matching.h"
#include "experts/migration/rebalance.h"
#include "experts/placement/replica_allocation.h"
#include "experts/placement/survival.h"
#include "planner/report/csv_table.h"

namespace evermoe {
namespace {

constexpr int kTraceExperts = 32, kLazarusLayers = 12;
constexpr double kNicBytes = 12.5e9;  // 100 Gbit/s

using LayerPlans = std::vector<ExpertsOfNodes>;

LayerPlans plans_of(const LayerLoads& loads, int nodes, PlacementMethod method) {
  LayerPlans plans;
  for (const std::vector<int64_t>& layer : loads) {
    const auto allocation = allocate_replicas(layer, nodes, kLazarusSlots, kLazarusFaults);
    CHECK_OK(allocation.status());
    const auto placement = place_replicas(allocation->replicas, nodes, kLazarusSlots,
                                          {.method = method, .faults = allocation->faults});
    CHECK_OK(placement.status());
    plans.push_back(placement->experts_of);
  }
  return plans;
}

// All layers as one: expert e of layer l is l * experts + e.
ExpertsOfNodes joined(const LayerPlans& plans, int experts) {
  ExpertsOfNodes all(plans.front().size());
  for (size_t layer = 0; layer < plans.size(); ++layer) {
    for (size_t node = 0; node < all.size(); ++node) {
      for (const int expert : plans[layer][node])
        all[node].push_back(static_cast<int>(layer) * experts + expert);
    }
  }
  return all;
}

// Groups of nodes with neighbouring experts on each, as in expert parallelism; only whole groups.
ExpertsOfNodes grouped(int experts, int group_nodes) {
  ExpertsOfNodes plan;
  const int each = experts / group_nodes;
  for (int node = 0; node < kLazarusNodes / group_nodes * group_nodes; ++node) {
    std::vector<int> held(static_cast<size_t>(each));
    std::iota(held.begin(), held.end(), node % group_nodes * each);
    plan.push_back(std::move(held));
  }
  return plan;
}

std::vector<double> shares_of(const std::vector<int64_t>& loads) {
  const double sum = static_cast<double>(std::accumulate(loads.begin(), loads.end(), int64_t{0}));
  std::vector<double> shares;
  for (const int64_t load : loads) shares.push_back(static_cast<double>(load) / sum);
  return shares;
}

// What moves after the loss of a set of nodes; nothing if an expert is lost.
std::optional<TransferPlan> moved(const LayerPlans& before, const LayerPlans& after, uint32_t lost,
                                  int experts) {
  LayerPlans held(before.size()), wanted;
  for (size_t layer = 0; layer < before.size(); ++layer) {
    for (size_t node = 0; node < before[layer].size(); ++node) {
      if (!(lost >> node & 1)) held[layer].push_back(before[layer][node]);
    }
    wanted.push_back(on_physical_nodes(after[layer], match_nodes(held[layer], after[layer])));
  }
  TransferPlan plan = plan_transfers(joined(held, experts), joined(wanted, experts));
  if (!plan.unavailable.empty()) return std::nullopt;
  return plan;
}

}  // namespace

const std::vector<LazarusModel>& lazarus_models() {
  // GPT-S and GPT-L: 2926 and 1996 steps in 30 minutes less five reconfigurations (Fig. 6); GPT-M: 45
  // samples per second with 40 in a step.
  static const std::vector<LazarusModel>& models =
      *new std::vector<LazarusModel>{{"GPT-S", 8, 768, 521e6, 2, 1650.0 / 2926},
                                     {"GPT-M", 12, 1024, 1.3e9, 2, 40.0 / 45},
                                     {"GPT-L", 16, 1024, 1.7e9, 4, 1650.0 / 1996}};
  return models;
}

double lazarus_expert_bytes(const LazarusModel& model) {
  return kLazarusStateBytes * 2 * 4 * model.hidden * model.hidden;
}

absl::StatusOr<std::vector<RoutingRow>> parse_routing(const std::string& text) {
  const auto table = CsvTable::parse(text, "smartmoe-expert-loads.csv");
  if (!table.ok()) return table.status();
  std::vector<RoutingRow> rows;
  for (int i = 0; i < table->rows(); ++i) {
    CsvTable::Row row = table->row(i);
    RoutingRow next{static_cast<int>(row.number("iteration")),
                    static_cast<int>(row.number("layer"))};
    for (int e = 0; e < kTraceExperts; ++e)
      next.tokens.push_back(static_cast<int64_t>(row.number(absl::StrCat("e", e))));
    if (!row.status().ok()) return row.status();
    rows.push_back(std::move(next));
  }
  return rows;
}

LayerLoads lazarus_loads(const std::vector<RoutingRow>& routing, int iteration, int experts) {
  LayerLoads loads;
  for (const RoutingRow& row : routing) {
    if (row.iteration != iteration || row.layer >= kLazarusLayers) continue;
    std::vector<int64_t> layer = row.tokens;
    std::sort(layer.begin(), layer.end());
    layer.erase(layer.begin(), layer.end() - experts);
    loads.push_back(std::move(layer));
  }
  CHECK(loads.size() == kLazarusLayers) << iteration;
  return loads;
}

LayerLoads uneven_loads(int ratio) {
  std::vector<int64_t> layer(7, 8 - ratio);
  layer.push_back(7 * ratio);
  return {layer};
}

std::vector<double> model_survival(const LayerLoads& loads, PlacementMethod method) {
  const int experts = static_cast<int>(loads.front().size());
  const LayerPlans plans = plans_of(loads, kLazarusNodes, method);
  const auto curve =
      survival_curve(joined(plans, experts), experts * static_cast<int>(loads.size()));
  CHECK_OK(curve.status());
  return curve->survived;
}

LayerSlowdown mean_slowdown(const LayerLoads& loads, int group_nodes) {
  LayerSlowdown mean{0, 0};
  const LayerPlans plans = plans_of(loads, kLazarusNodes, PlacementMethod::kMroQ);
  const double layers = static_cast<double>(loads.size());
  for (size_t layer = 0; layer < loads.size(); ++layer) {
    const std::vector<double> shares = shares_of(loads[layer]);
    mean.adaptive += expert_slowdown(plans[layer], shares) / layers;
    mean.groups +=
        expert_slowdown(grouped(static_cast<int>(shares.size()), group_nodes), shares) / layers;
  }
  return mean;
}

MigrationRange migrations(const LazarusModel& model, const LayerLoads& loads, int lost) {
  const LayerPlans before = plans_of(loads, kLazarusNodes, PlacementMethod::kMroQ),
                   after = plans_of(loads, kLazarusNodes - lost, PlacementMethod::kMroQ);
  MigrationRange range;
  int64_t sum = 0, rounds = 0;
  for (uint32_t set = 0; set < uint32_t{1} << kLazarusNodes; ++set) {
    if (std::popcount(set) != lost) continue;
    ++range.sets;
    const auto plan = moved(before, after, set, model.experts);
    if (!plan) continue;
    const int64_t count = std::ssize(plan->transfers);
    range.least = range.survived == 0 ? count : std::min(range.least, count);
    range.most = std::max(range.most, count);
    ++range.survived;
    sum += count;
    rounds += plan->rounds;
  }
  if (range.survived == 0) return range;
  range.mean = static_cast<double>(sum) / range.survived;
  range.round_seconds =
      static_cast<double>(rounds) / range.survived * lazarus_expert_bytes(model) / kNicBytes;
  return range;
}

}  // namespace evermoe
