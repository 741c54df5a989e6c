#include "experts/placement/replica_placement.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <queue>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "experts/placement/rank_overlap.h"

namespace evermoe {
namespace {

constexpr std::array<std::pair<std::string_view, PlacementMethod>, 4> kMethods = {{
    {"mro", PlacementMethod::kMro},
    {"mro_q", PlacementMethod::kMroQ},
    {"spread", PlacementMethod::kSpread},
    {"compact", PlacementMethod::kCompact},
}};

absl::Status check_input(std::span<const int> replicas, int nodes, int slots,
                         const PlacementOptions& options) {
  if (nodes < 1 || slots < 1) {
    return InvalidInput(
        absl::StrCat("no room for experts: ", nodes, " nodes of ", slots, " slots"));
  }
  int64_t sum = 0;
  for (size_t expert = 0; expert < replicas.size(); ++expert) {
    if (replicas[expert] < 1) {
      return InvalidInput(absl::StrCat("expert ", expert, " has ", replicas[expert], " replicas"));
    }
    sum += replicas[expert];
  }
  if (sum != static_cast<int64_t>(nodes) * slots) {
    return InvalidInput(
        absl::StrCat(sum, " replicas do not fill ", nodes, " nodes of ", slots, " slots exactly"));
  }
  std::vector<int> sorted(options.previous_order.begin(), options.previous_order.end());
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted.size() != replicas.size() || sorted[i] != static_cast<int>(i)) {
      return InvalidInput(
          absl::StrCat("the previous order is no permutation of ", replicas.size(), " experts"));
    }
  }
  return absl::OkStatus();
}

std::vector<int> ascending_order(std::span<const int> replicas, std::span<const int> previous) {
  std::vector<int> order(previous.begin(), previous.end());
  if (order.empty()) {
    order.resize(replicas.size());
    std::iota(order.begin(), order.end(), 0);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return replicas[a] < replicas[b]; });
  return order;
}

// `dealt[i]` is the node of the i-th replica, expert after expert.
template <typename NodeOf>
ExpertsOfNodes deal(std::span<const int> replicas, int nodes, NodeOf node_of) {
  ExpertsOfNodes experts_of(nodes);
  int64_t i = 0;
  for (int expert = 0; expert < static_cast<int>(replicas.size()); ++expert) {
    for (int k = 0; k < replicas[expert]; ++k) experts_of[node_of(i++)].push_back(expert);
  }
  return experts_of;
}

// Fills vacant slots node by node: an expert that is not on the node first, then the one with most
// replicas left, then the one that comes first. Full groups leave nothing of their representative
// over, so this does not change what survives; it only balances.
class VacancyFiller {
 public:
  explicit VacancyFiller(const std::vector<int>& left) {
    for (int expert = 0; expert < static_cast<int>(left.size()); ++expert)
      put_back({left[expert], -expert});
  }

  void fill(std::vector<int>& on_node, size_t slots) {
    while (on_node.size() < slots) {
      CHECK(!waiting_.empty()) << "fewer replicas than slots";
      std::vector<Entry> passed_over;
      while (!waiting_.empty() && contains(on_node, -waiting_.top().second))
        passed_over.push_back(take());
      Entry chosen;
      if (waiting_.empty()) {
        chosen = passed_over.front();
        passed_over.erase(passed_over.begin());
      } else {
        chosen = take();
      }
      on_node.push_back(-chosen.second);
      put_back({chosen.first - 1, chosen.second});
      for (const Entry& entry : passed_over) put_back(entry);
    }
  }

 private:
  using Entry = std::pair<int, int>;  // (replicas left, -expert)

  static bool contains(const std::vector<int>& on_node, int expert) {
    return std::find(on_node.begin(), on_node.end(), expert) != on_node.end();
  }
  Entry take() {
    const Entry entry = waiting_.top();
    waiting_.pop();
    return entry;
  }
  void put_back(Entry entry) {
    CHECK(entry.first >= 0) << "expert " << -entry.second << " placed too often";
    if (entry.first > 0) waiting_.push(entry);
  }

  std::priority_queue<Entry> waiting_;
};

// Completes a skeleton in positions of `order` and renames positions to experts.
ExpertsOfNodes complete(ExpertsOfNodes skeleton, const std::vector<int>& sorted,
                        const std::vector<int>& order, int slots) {
  std::vector<int> left = sorted;
  for (const auto& on_node : skeleton) {
    for (const int position : on_node) --left[position];
  }
  VacancyFiller filler(left);
  for (auto& on_node : skeleton) {
    filler.fill(on_node, static_cast<size_t>(slots));
    for (int& position : on_node) position = order[position];
    std::sort(on_node.begin(), on_node.end());
  }
  return skeleton;
}

int least_distinct(const ExpertsOfNodes& experts_of, int experts) {
  const std::vector<int> distinct = distinct_nodes(experts_of, experts);
  return *std::min_element(distinct.begin(), distinct.end());
}

// MRO or MRO-q, with the fallback for the latter.
void place_by_overlap(ReplicaPlacement& placement, const std::vector<int>& sorted, int nodes,
                      int slots, const PlacementOptions& options) {
  const int experts = static_cast<int>(sorted.size());
  const RankOverlap overlap(sorted, nodes, slots);
  const bool is_plain = options.method == PlacementMethod::kMro;
  placement.experts_of =
      complete(is_plain ? overlap.plain() : overlap.cover_blocks(), sorted, placement.order, slots);
  placement.distinct_least = least_distinct(placement.experts_of, experts);
  const int possible = std::min(sorted.front(), nodes);
  const int promised = options.faults > 0 ? std::min(options.faults, possible) : possible;
  if (is_plain || placement.distinct_least >= promised) return;
  placement.experts_of = complete(overlap.wrap_around(), sorted, placement.order, slots);
  placement.distinct_least = least_distinct(placement.experts_of, experts);
  placement.wraps_around = true;
  CHECK(placement.distinct_least >= promised)
      << placement.distinct_least << " distinct nodes of " << promised;
}

}  // namespace

std::string_view to_string(PlacementMethod method) {
  for (const auto& [name, value] : kMethods) {
    if (value == method) return name;
  }
  CHECK(false) << static_cast<int>(method);
  return "";
}

absl::StatusOr<PlacementMethod> parse_placement_method(std::string_view name) {
  for (const auto& [known, value] : kMethods) {
    if (known == name) return value;
  }
  return InvalidInput(absl::StrCat("placement method \"", std::string(name),
                                   "\": expected mro, mro_q, spread or compact"));
}

std::vector<int> distinct_nodes(const ExpertsOfNodes& experts_of, int experts) {
  std::vector<int> count(experts, 0), last_seen(experts, -1);
  for (int node = 0; node < static_cast<int>(experts_of.size()); ++node) {
    for (const int expert : experts_of[node]) {
      CHECK(expert >= 0 && expert < experts) << "expert " << expert << " of " << experts;
      if (last_seen[expert] == node) continue;
      last_seen[expert] = node;
      ++count[expert];
    }
  }
  return count;
}

absl::StatusOr<ReplicaPlacement> place_replicas(std::span<const int> replicas, int nodes, int slots,
                                                const PlacementOptions& options) {
  RETURN_IF_ERROR(check_input(replicas, nodes, slots, options));
  ReplicaPlacement placement{.order = ascending_order(replicas, options.previous_order)};
  switch (options.method) {
    case PlacementMethod::kMro:
    case PlacementMethod::kMroQ: {
      std::vector<int> sorted;
      for (const int expert : placement.order) sorted.push_back(replicas[expert]);
      place_by_overlap(placement, sorted, nodes, slots, options);
      return placement;
    }
    case PlacementMethod::kSpread:
      placement.experts_of = deal(replicas, nodes, [&](int64_t i) { return i % nodes; });
      break;
    case PlacementMethod::kCompact:
      placement.experts_of = deal(replicas, nodes, [&](int64_t i) { return i / slots; });
      break;
  }
  placement.distinct_least =
      least_distinct(placement.experts_of, static_cast<int>(replicas.size()));
  return placement;
}

}  // namespace evermoe
