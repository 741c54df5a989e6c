#include "experts/migration/node_matching.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "experts/migration/heaviest_transport.h"

namespace evermoe {
namespace {

// What some nodes hold, each expert once.
using Experts = absl::Span<const int>;

// Nodes that hold the same are interchangeable.
enum class Grouping { kNone, kEqual };

// The distinct experts of nodes, and the nodes grouped by them in the order of their first, or each
// by itself.
class NodeGroups {
 public:
  NodeGroups(const ExpertsOfNodes& experts_of, Grouping grouping);

  size_t size() const { return sizes_.size(); }
  const std::vector<int>& sizes() const { return sizes_; }
  Experts experts_of(size_t group) const { return experts_of_[group]; }
  std::vector<std::vector<int>> nodes() const;           // by group, ascending
  int64_t held() const { return std::ssize(experts_); }  // on all nodes together
  int experts() const { return experts_end_; }           // above the greatest

 private:
  Experts add_distinct(const std::vector<int>& experts);

  std::vector<int> experts_;  // distinct ones, node by node
  int experts_end_ = 0;
  std::vector<size_t> group_of_;  // by node
  std::vector<Experts> experts_of_;
  std::vector<int> sizes_;
};

NodeGroups::NodeGroups(const ExpertsOfNodes& experts_of, Grouping grouping) {
  size_t room = 0;
  for (const auto& on_node : experts_of) room += on_node.size();
  experts_.reserve(room);  // never moves, so that groups may point there
  absl::flat_hash_map<Experts, size_t> groups;
  if (grouping == Grouping::kEqual) groups.reserve(experts_of.size());
  for (const auto& on_node : experts_of) {
    const Experts distinct = add_distinct(on_node);
    size_t group = sizes_.size();
    if (grouping == Grouping::kEqual) group = groups.try_emplace(distinct, group).first->second;
    if (group == sizes_.size()) {
      experts_of_.push_back(distinct);
      sizes_.push_back(0);
    }
    ++sizes_[group];
    group_of_.push_back(group);
  }
}

Experts NodeGroups::add_distinct(const std::vector<int>& experts) {
  const auto begin = experts_.insert(experts_.end(), experts.begin(), experts.end());
  std::sort(begin, experts_.end());
  experts_.erase(std::unique(begin, experts_.end()), experts_.end());
  const Experts distinct = Experts(experts_).subspan(static_cast<size_t>(begin - experts_.begin()));
  if (!distinct.empty()) {
    CHECK(distinct.front() >= 0) << distinct.front();
    experts_end_ = std::max(experts_end_, distinct.back() + 1);
  }
  return distinct;
}

std::vector<std::vector<int>> NodeGroups::nodes() const {
  std::vector<std::vector<int>> nodes(size());
  for (size_t group = 0; group < size(); ++group)
    nodes[group].reserve(static_cast<size_t>(sizes_[group]));
  for (size_t node = 0; node < group_of_.size(); ++node)
    nodes[group_of_[node]].push_back(static_cast<int>(node));
  return nodes;
}

// A pair of groups, of nodes and of plan nodes, that have experts in common: how many.
using Overlap = TransportPair;

// Ascending.
std::vector<Overlap> overlaps(const NodeGroups& held, const NodeGroups& plan) {
  std::vector<std::vector<int>> plan_groups_of(static_cast<size_t>(plan.experts()));
  for (size_t q = 0; q < plan.size(); ++q) {
    for (const int expert : plan.experts_of(q))
      plan_groups_of[static_cast<size_t>(expert)].push_back(static_cast<int>(q));
  }
  std::vector<Overlap> found;
  std::vector<int> common(plan.size(), 0), touched;
  for (size_t p = 0; p < held.size(); ++p) {
    touched.clear();
    for (const int expert : held.experts_of(p)) {
      if (expert >= plan.experts()) continue;
      for (const int q : plan_groups_of[static_cast<size_t>(expert)]) {
        if (common[static_cast<size_t>(q)]++ == 0) touched.push_back(q);
      }
    }
    std::sort(touched.begin(), touched.end());
    for (const int q : touched)
      found.push_back({static_cast<int>(p), q, std::exchange(common[static_cast<size_t>(q)], 0)});
  }
  return found;
}

// Who plays whom, as far as it is decided.
class Players {
 public:
  explicit Players(size_t nodes) : plan_node_of_(nodes, -1), player_of_(nodes, -1) {}

  void assign(int node, int plan_node) {
    plan_node_of_[static_cast<size_t>(node)] = plan_node;
    player_of_[static_cast<size_t>(plan_node)] = node;
  }
  void assign_the_rest();
  int plan_node_of(int node) const { return plan_node_of_[static_cast<size_t>(node)]; }
  int player_of(int plan_node) const { return player_of_[static_cast<size_t>(plan_node)]; }
  std::vector<int> take() { return std::move(plan_node_of_); }

 private:
  std::vector<int> plan_node_of_;  // by physical node, -1 for none yet
  std::vector<int> player_of_;     // by plan node
};

void Players::assign_the_rest() {
  int plan_node = 0;
  for (int node = 0; node < static_cast<int>(plan_node_of_.size()); ++node) {
    if (plan_node_of(node) >= 0) continue;
    while (player_of(plan_node) >= 0) ++plan_node;
    assign(node, plan_node);
  }
}

// The sizes of the plan's sets are given, so the least cost is the most experts in common.
NodeMatching match_exactly(const ExpertsOfNodes& held, const ExpertsOfNodes& plan) {
  const NodeGroups groups(held, Grouping::kEqual), plan_groups(plan, Grouping::kEqual);
  const std::vector<Overlap> pairs = overlaps(groups, plan_groups);
  const std::vector<int> played = heaviest_transport(groups.sizes(), plan_groups.sizes(), pairs);
  NodeMatching matching{.fetched = plan_groups.held()};
  Players players(held.size());
  const auto nodes = groups.nodes(), plan_nodes = plan_groups.nodes();
  std::vector<size_t> next(nodes.size(), 0), plan_next(plan_nodes.size(), 0);
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto p = static_cast<size_t>(pairs[i].left), q = static_cast<size_t>(pairs[i].right);
    for (int n = 0; n < played[i]; ++n)
      players.assign(nodes[p][next[p]++], plan_nodes[q][plan_next[q]++]);
    matching.fetched -= int64_t{played[i]} * pairs[i].weight;
  }
  players.assign_the_rest();
  matching.plan_node_of = players.take();
  return matching;
}

class GreedyMatcher {
 public:
  GreedyMatcher(const ExpertsOfNodes& held, const ExpertsOfNodes& plan);
  NodeMatching match();

 private:
  int node_count() const { return static_cast<int>(held_.size()); }
  std::span<const Overlap> overlaps_of(int node) const;
  int common(int node, int plan_node) const;
  bool swap_once();

  const NodeGroups held_, plan_;  // a node each
  const std::vector<Overlap> overlaps_;
  std::vector<size_t> begin_;  // by node, in overlaps_
  Players players_;
};

GreedyMatcher::GreedyMatcher(const ExpertsOfNodes& held, const ExpertsOfNodes& plan)
    : held_(held, Grouping::kNone),
      plan_(plan, Grouping::kNone),
      overlaps_(overlaps(held_, plan_)),
      begin_(held.size() + 1, 0),
      players_(held.size()) {
  for (const Overlap& overlap : overlaps_) ++begin_[static_cast<size_t>(overlap.left) + 1];
  std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
}

NodeMatching GreedyMatcher::match() {
  std::vector<Overlap> pairs = overlaps_;
  std::ranges::stable_sort(pairs, std::greater<>(), &Overlap::weight);
  for (const Overlap& pair : pairs) {
    if (players_.plan_node_of(pair.left) < 0 && players_.player_of(pair.right) < 0)
      players_.assign(pair.left, pair.right);
  }
  players_.assign_the_rest();
  while (swap_once()) {
  }
  NodeMatching matching{.fetched = plan_.held(), .is_exact = false};
  for (int node = 0; node < node_count(); ++node)
    matching.fetched -= common(node, players_.plan_node_of(node));
  matching.plan_node_of = players_.take();
  return matching;
}

std::span<const Overlap> GreedyMatcher::overlaps_of(int node) const {
  const auto n = static_cast<size_t>(node);
  return std::span(overlaps_).subspan(begin_[n], begin_[n + 1] - begin_[n]);
}

int GreedyMatcher::common(int node, int plan_node) const {
  const std::span<const Overlap> of = overlaps_of(node);
  const auto at = std::ranges::lower_bound(of, plan_node, {}, &Overlap::right);
  return at != of.end() && at->right == plan_node ? at->weight : 0;
}

// One pass of swaps. A swap that helps helps one of its two nodes by itself, so it is enough to try
// those. Ends, because every swap adds to the experts in common.
bool GreedyMatcher::swap_once() {
  bool swapped = false;
  for (int node = 0; node < node_count(); ++node) {
    for (const Overlap& better : overlaps_of(node)) {
      const int mine = players_.plan_node_of(node), other = players_.player_of(better.right);
      const int now = common(node, mine);
      if (better.weight <= now) continue;
      if (better.weight + common(other, mine) > now + common(other, better.right)) {
        players_.assign(node, better.right);
        players_.assign(other, mine);
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
  if (static_cast<int>(held.size()) <= exact_nodes_max) return match_exactly(held, plan);
  return GreedyMatcher(held, plan).match();
}

ExpertsOfNodes on_physical_nodes(ExpertsOfNodes plan, const NodeMatching& matching) {
  ExpertsOfNodes by_node;
  by_node.reserve(plan.size());
  for (const int plan_node : matching.plan_node_of)
    by_node.push_back(std::move(plan[static_cast<size_t>(plan_node)]));
  return by_node;
}

}  // namespace evermoe
