#include "experts/placement/replica_domains.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"

namespace evermoe {
namespace {

using Sets = std::vector<std::vector<int>>;  // sorted, distinct

Sets as_sets(Sets lists) {
  for (auto& list : lists) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  return lists;
}

int expert_count(const Sets& sets) {
  int count = 0;
  for (const auto& set : sets) count = set.empty() ? count : std::max(count, set.back() + 1);
  return count;
}

int fetched(const std::vector<int>& held, const std::vector<int>& wanted) {
  int missing = 0;
  auto at = held.begin();
  for (const int expert : wanted) {
    while (at != held.end() && *at < expert) ++at;
    missing += at == held.end() || *at != expert;
  }
  return missing;
}

// How many nodes of each domain hold each expert, and by how many domains it misses its goal.
class Spread {
 public:
  // `placed` is by physical node.
  Spread(const Sets& placed, const FailureDomains& domains, const DomainGoal& goal) {
    for (int node = 0; node < domains.nodes(); ++node)
      domain_of_.push_back(domains.domain_of(node, goal.level));
    const int domain_count = domains.count(goal.level), experts = expert_count(placed);
    nodes_in_.assign(experts, std::vector<int>(domain_count, 0));
    span_.assign(experts, 0);
    std::vector<int> nodes(experts, 0);
    for (size_t node = 0; node < placed.size(); ++node) {
      for (const int expert : placed[node]) {
        ++nodes[expert];
        add(expert, domain_of_[node]);
      }
    }
    for (const int on_nodes : nodes)
      goal_.push_back(std::min({goal.domains, on_nodes, domain_count}));
  }

  int experts() const { return static_cast<int>(span_.size()); }
  int missing(int expert) const { return std::max(0, goal_[expert] - span_[expert]); }
  bool reaches(int expert, int node) const { return nodes_in_[expert][domain_of_[node]] > 0; }

  // By how much all experts together come nearer their goals (negative) when two nodes exchange
  // what they have.
  int exchange(const std::vector<int>& a_has, int a, const std::vector<int>& b_has, int b) {
    int change = 0;
    for (const int expert : a_has) change += move(expert, a, b);
    for (const int expert : b_has) change += move(expert, b, a);
    return change;
  }

 private:
  void add(int expert, int domain) { span_[expert] += nodes_in_[expert][domain]++ == 0; }
  int move(int expert, int from, int to) {
    const int before = missing(expert);
    span_[expert] -= --nodes_in_[expert][domain_of_[from]] == 0;
    add(expert, domain_of_[to]);
    return missing(expert) - before;
  }

  std::vector<int> domain_of_;              // by physical node
  std::vector<std::vector<int>> nodes_in_;  // by expert and domain
  std::vector<int> span_;                   // by expert: its domains
  std::vector<int> goal_;                   // by expert
};

class DomainRepair {
 public:
  DomainRepair(const ExpertsOfNodes& held, const ExpertsOfNodes& plan,
               std::vector<int> plan_node_of, const FailureDomains& domains, const DomainGoal& goal)
      : held_(as_sets(held)),
        plan_(as_sets(plan)),
        plan_node_of_(std::move(plan_node_of)),
        spread_(placed(), domains, goal) {}

  // Ends, because every exchange takes away from what is missing in all.
  void run() {
    for (bool helped = true; helped;) {
      helped = false;
      for (int expert = 0; expert < spread_.experts(); ++expert) {
        while (spread_.missing(expert) > 0 && help(expert)) helped = true;
      }
    }
  }
  const std::vector<int>& plan_node_of() const { return plan_node_of_; }
  int64_t cost() const {
    int64_t sum = 0;
    for (int node = 0; node < nodes(); ++node) sum += fetched(held_[node], at(node));
    return sum;
  }
  std::vector<int> too_close() const {
    std::vector<int> experts;
    for (int expert = 0; expert < spread_.experts(); ++expert) {
      if (spread_.missing(expert) > 0) experts.push_back(expert);
    }
    return experts;
  }

 private:
  int nodes() const { return static_cast<int>(plan_node_of_.size()); }
  const std::vector<int>& at(int node) const { return plan_[plan_node_of_[node]]; }
  Sets placed() const {
    Sets by_node;
    for (int node = 0; node < nodes(); ++node) by_node.push_back(at(node));
    return by_node;
  }
  // Makes the exchange that helps best. False if none helps.
  bool help(int expert) {
    auto best = std::tuple(0, 0, -1, -1);  // (change of missing domains, of fetches, node, other)
    for (int node = 0; node < nodes(); ++node) {
      if (!std::binary_search(at(node).begin(), at(node).end(), expert)) continue;
      for (int other = 0; other < nodes(); ++other) {
        if (spread_.reaches(expert, other)) continue;
        const int change = spread_.exchange(at(node), node, at(other), other);
        spread_.exchange(at(node), other, at(other), node);
        const int price = fetched(held_[node], at(other)) + fetched(held_[other], at(node)) -
                          fetched(held_[node], at(node)) - fetched(held_[other], at(other));
        if (change < 0) best = std::min(best, std::tuple(change, price, node, other));
      }
    }
    const auto [change, price, node, other] = best;
    if (change == 0) return false;
    spread_.exchange(at(node), node, at(other), other);
    std::swap(plan_node_of_[node], plan_node_of_[other]);
    return true;
  }

  const Sets held_;  // by physical node
  const Sets plan_;  // by plan node
  std::vector<int> plan_node_of_;
  Spread spread_;
};

}  // namespace

std::vector<int> interleaved_nodes(const FailureDomains& domains, DomainLevel level) {
  std::vector<std::vector<int>> left(domains.count(level));  // by domain: its nodes, descending
  for (int node = domains.nodes() - 1; node >= 0; --node)
    left[domains.domain_of(node, level)].push_back(node);
  std::vector<int> order;
  int last = -1;
  while (static_cast<int>(order.size()) < domains.nodes()) {
    int next = -1;  // the domain with most nodes left, other than the last one if there is another
    for (int domain = 0; domain < static_cast<int>(left.size()); ++domain) {
      if (left[domain].empty() || domain == last) continue;
      if (next < 0 || left[domain].size() > left[next].size()) next = domain;
    }
    last = next < 0 ? last : next;
    order.push_back(left[last].back());
    left[last].pop_back();
  }
  return order;
}

std::vector<int> experts_too_close(const ExpertsOfNodes& experts_of, const FailureDomains& domains,
                                   const DomainGoal& goal) {
  const Spread spread(as_sets(experts_of), domains, goal);
  std::vector<int> experts;
  for (int expert = 0; expert < spread.experts(); ++expert) {
    if (spread.missing(expert) > 0) experts.push_back(expert);
  }
  return experts;
}

DomainMatching match_nodes_over_domains(const ExpertsOfNodes& held, const ExpertsOfNodes& plan,
                                        const FailureDomains& domains, const DomainGoal& goal) {
  CHECK(static_cast<int>(plan.size()) == domains.nodes())
      << plan.size() << " plan nodes, " << domains.nodes();
  DomainMatching result{.matching = match_nodes(held, plan)};
  NodeMatching& matching = result.matching;
  int64_t wanted = 0;
  for (const auto& set : as_sets(plan)) wanted += static_cast<int64_t>(set.size());
  if (matching.fetched == wanted) {  // nothing in common
    const std::vector<int> order = interleaved_nodes(domains, goal.level);
    for (size_t i = 0; i < order.size(); ++i) matching.plan_node_of[order[i]] = static_cast<int>(i);
  }
  DomainRepair repair(held, plan, matching.plan_node_of, domains, goal);
  repair.run();
  matching.is_exact = matching.is_exact && repair.plan_node_of() == matching.plan_node_of;
  matching.plan_node_of = repair.plan_node_of();
  matching.fetched = repair.cost();
  result.too_close = repair.too_close();
  return result;
}

}  // namespace evermoe
