#include "experts/migration/node_matching.h"

#include <algorithm>

#include "base/check.h"
#include "parallel/flow_network.h"

namespace evermoe {
namespace {

// A plan node that has experts in common with some physical node, and how many.
struct Overlap {
  int plan_node = 0;
  int common = 0;
};

std::vector<int> distinct(std::vector<int> experts) {
  std::sort(experts.begin(), experts.end());
  experts.erase(std::unique(experts.begin(), experts.end()), experts.end());
  return experts;
}

// By physical node, plan nodes ascending.
std::vector<std::vector<Overlap>> overlaps(const ExpertsOfNodes& held, const ExpertsOfNodes& plan) {
  int experts = 0;
  for (const auto& on_node : plan) {
    for (const int expert : on_node) {
      CHECK(expert >= 0) << expert;
      experts = std::max(experts, expert + 1);
    }
  }
  std::vector<std::vector<int>> plan_nodes_of(experts);
  for (size_t q = 0; q < plan.size(); ++q) {
    for (const int expert : distinct(plan[q])) plan_nodes_of[expert].push_back(static_cast<int>(q));
  }
  std::vector<std::vector<Overlap>> found(held.size());
  std::vector<int> common(plan.size(), 0);
  for (size_t p = 0; p < held.size(); ++p) {
    std::vector<int> touched;
    for (const int expert : distinct(held[p])) {
      if (expert >= experts) continue;
      for (const int q : plan_nodes_of[expert]) {
        if (common[q]++ == 0) touched.push_back(q);
      }
    }
    std::sort(touched.begin(), touched.end());
    for (const int q : touched) {
      found[p].push_back({q, common[q]});
      common[q] = 0;
    }
  }
  return found;
}

class Matcher {
 public:
  explicit Matcher(const std::vector<std::vector<Overlap>>& overlaps)
      : overlaps_(overlaps), plan_node_of_(overlaps.size(), -1), player_of_(overlaps.size(), -1) {}

  void match_exactly();
  void match_greedily();
  const std::vector<int>& plan_node_of() const { return plan_node_of_; }
  int64_t common() const;

 private:
  int nodes() const { return static_cast<int>(overlaps_.size()); }
  void assign(int node, int plan_node) {
    plan_node_of_[node] = plan_node;
    player_of_[plan_node] = node;
  }
  void match_the_rest();
  bool swap_once();
  int common(int node, int plan_node) const;

  const std::vector<std::vector<Overlap>>& overlaps_;
  std::vector<int> plan_node_of_;  // by physical node, -1 for none yet
  std::vector<int> player_of_;     // by plan node
};

int Matcher::common(int node, int plan_node) const {
  const auto& of = overlaps_[node];
  const auto at =
      std::lower_bound(of.begin(), of.end(), plan_node,
                       [](const Overlap& overlap, int q) { return overlap.plan_node < q; });
  return at != of.end() && at->plan_node == plan_node ? at->common : 0;
}

int64_t Matcher::common() const {
  int64_t sum = 0;
  for (int node = 0; node < nodes(); ++node) sum += common(node, plan_node_of_[node]);
  return sum;
}

// The sizes of the plan's sets are given, so the least cost is the most experts in common. Pairs
// with none go through one hub, which keeps the network as sparse as the overlaps are.
void Matcher::match_exactly() {
  FlowNetwork network;
  for (int node = 0; node < nodes(); ++node) network.add_node(1);
  for (int node = 0; node < nodes(); ++node) network.add_node(-1);
  const int hub = network.add_node();
  for (int node = 0; node < nodes(); ++node) {
    network.add_arc(node, hub, 1);
    network.add_arc(hub, nodes() + node, 1);
  }
  struct Pair {
    int arc, node, plan_node;
  };
  std::vector<Pair> pairs;
  for (int node = 0; node < nodes(); ++node) {
    for (const Overlap& overlap : overlaps_[node]) {
      const int arc = network.add_arc(node, nodes() + overlap.plan_node, 1, -overlap.common);
      pairs.push_back({arc, node, overlap.plan_node});
    }
  }
  CHECK(network.solve()) << "the hub connects everything";
  for (const Pair& pair : pairs) {
    if (network.flow(pair.arc) > 0) assign(pair.node, pair.plan_node);
  }
  match_the_rest();
}

void Matcher::match_greedily() {
  struct Pair {
    int common, node, plan_node;
  };
  std::vector<Pair> pairs;
  for (int node = 0; node < nodes(); ++node) {
    for (const Overlap& overlap : overlaps_[node])
      pairs.push_back({overlap.common, node, overlap.plan_node});
  }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& a, const Pair& b) { return a.common > b.common; });
  for (const Pair& pair : pairs) {
    if (plan_node_of_[pair.node] < 0 && player_of_[pair.plan_node] < 0)
      assign(pair.node, pair.plan_node);
  }
  match_the_rest();
  while (swap_once()) {
  }
}

void Matcher::match_the_rest() {
  int plan_node = 0;
  for (int node = 0; node < nodes(); ++node) {
    if (plan_node_of_[node] >= 0) continue;
    while (player_of_[plan_node] >= 0) ++plan_node;
    assign(node, plan_node);
  }
}

// One pass of swaps. A swap that helps helps one of its two nodes by itself, so it is enough to try
// those. Ends, because every swap adds to the experts in common.
bool Matcher::swap_once() {
  bool swapped = false;
  for (int node = 0; node < nodes(); ++node) {
    for (const Overlap& better : overlaps_[node]) {
      const int mine = plan_node_of_[node], other = player_of_[better.plan_node];
      const int now = common(node, mine);
      if (better.common <= now) continue;
      if (better.common + common(other, mine) > now + common(other, better.plan_node)) {
        assign(node, better.plan_node);
        assign(other, mine);
        swapped = true;
      }
    }
  }
  return swapped;
}

}  // namespace

NodeMatching match_nodes(const ExpertsOfNodes& held, const ExpertsOfNodes& plan,
                         int exact_nodes_max) {
  CHECK(held.size() == plan.size()) << held.size() << " nodes for a plan of " << plan.size();
  const std::vector<std::vector<Overlap>> found = overlaps(held, plan);
  Matcher matcher(found);
  NodeMatching matching{.is_exact = static_cast<int>(held.size()) <= exact_nodes_max};
  if (matching.is_exact) {
    matcher.match_exactly();
  } else {
    matcher.match_greedily();
  }
  matching.plan_node_of = matcher.plan_node_of();
  for (const auto& on_node : plan)
    matching.fetched += static_cast<int64_t>(distinct(on_node).size());
  matching.fetched -= matcher.common();
  return matching;
}

ExpertsOfNodes on_physical_nodes(const ExpertsOfNodes& plan, const NodeMatching& matching) {
  ExpertsOfNodes by_node;
  for (const int plan_node : matching.plan_node_of) by_node.push_back(plan[plan_node]);
  return by_node;
}

}  // namespace evermoe
