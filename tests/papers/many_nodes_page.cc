#include "papers/results_page.h"

#include <cmath>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "experts/migration/rebalance.h"
#include "experts/placement/load_placement.h"
#include "experts/placement/replica_allocation.h"
#include "experts/placement/survival.h"
#include "papers/page_text.h"
#include "planner/report/markdown_table.h"

namespace evermoe {
namespace {

// Of a layer of DeepSeek-V3.
constexpr int kExperts = 256;
constexpr int kNodes = 1024, kSlots = 4, kFaults = 2, kGroupNodes = kExperts / kSlots;
constexpr int kIteration = 4001;

// The trace's layers have 32 experts: eight of them side by side.
std::vector<int64_t> layer_loads(const std::vector<RoutingRow>& routing) {
  std::vector<int64_t> loads;
  for (const RoutingRow& row : routing) {
    if (row.iteration != kIteration || std::ssize(loads) >= kExperts) continue;
    const double sum = std::accumulate(row.tokens.begin(), row.tokens.end(), 0.0);
    for (const int64_t tokens : row.tokens)
      loads.push_back(std::llround(1e6 * static_cast<double>(tokens) / sum));
  }
  CHECK(std::ssize(loads) == kExperts) << loads.size();
  return loads;
}

std::vector<double> survived(const std::vector<int64_t>& loads) {
  const auto allocation = allocate_replicas(loads, kNodes, kSlots, kFaults + 1);
  CHECK(allocation.ok()) << allocation.status();
  const auto placement =
      place_replicas(allocation->replicas, kNodes, kSlots, {.faults = allocation->faults});
  CHECK(placement.ok()) << placement.status();
  const auto curve = survival_curve(placement->experts_of, kExperts);
  CHECK(curve.ok()) << curve.status();
  return curve->survived;
}

// The busiest node over the mean, as the runtime places experts.
double slowdown_of(const std::vector<int64_t>& loads, int nodes) {
  const ExpertsOfNodes placed =
      place_by_load(loads, {.lanes = nodes, .slots = kSlots, .faults = kFaults});
  return expert_slowdown(placed, std::vector<double>(loads.begin(), loads.end()));
}

// The share of groups of nodes that are whole, on average, when so many of all nodes are lost.
double whole_groups(int lost) {
  double share = 1;
  for (int i = 0; i < lost; ++i)
    share *= static_cast<double>(kNodes - kGroupNodes - i) / static_cast<double>(kNodes - i);
  return share;
}

}  // namespace

std::string many_nodes_section(const ResultsInput& input) {
  const std::vector<int64_t> loads = layer_loads(input.routing);
  const std::vector<double> alive = survived(loads);
  const double before = slowdown_of(loads, kNodes);
  MarkdownTable rows({"lost nodes", "every expert lives, MRO-q", "kept: every node is used",
                      "kept: whole groups", "kept: a divisor of the nodes"});
  for (const int lost : {1, 2, 3, 4, 8, 16, 32, 64, 128}) {
    const double nodes = static_cast<double>(kNodes - lost) / kNodes;
    const double kept = nodes * before / slowdown_of(loads, kNodes - lost);
    rows.add({absl::StrCat(lost), percent(alive[static_cast<size_t>(lost)], 2), percent(kept, 1),
              percent(whole_groups(lost), 1), percent(0.5, 1)});
  }
  return absl::StrCat(R"(
## DeepSeek-V3's layers on 1,024 nodes: what losses leave

No paper has it; it is what `src/experts/` decides at that size. A layer of 256 experts, nodes of 4 slots, f = 2, the loads
of eight layers of SmartMoE's trace side by side. *Lives* is exact, for one layer placed as Lazarus does. *Kept* is the share
of the tokens per second: of a layer whose experts are placed by load on the nodes that are left, which wait for the busiest
(at first )",
                      fixed(before, 2), R"( times the mean); of groups of )", kGroupNodes,
                      R"( nodes that hold every expert once, on average; and of the largest divisor
of 1,024 nodes that is left.

)",
                      rows.text());
}

}  // namespace evermoe
