#include "experts/migration/expert_balance.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "experts/migration/node_matching.h"
#include "experts/placement/load_sharing.h"

namespace evermoe {
namespace {

// So many of every expert, spread evenly.
int even_slots(int experts, int lanes, int replicas) {
  return (experts * std::min(replicas, lanes) + lanes - 1) / lanes;
}

// A layer's loads, and how plans for it are judged.
class Layer {
 public:
  explicit Layer(const LayerBalance& layer) : loads_(layer.loads) {}

  struct Judged {
    LanePlan plan;
    double slowdown = 1;
  };
  // With as few slots in use as are enough, tried in growing strides.
  Judged place(int lanes, const BalanceOptions& options) const;

 private:
  Judged plan(const LoadPlacementOptions& options) const {
    Judged judged{.plan = plan_by_load(loads_, options)};
    judged.slowdown = slowdown_of(loads_, judged.plan);
    return judged;
  }
  bool may_reach(double slowdown, const LoadPlacementOptions& options) const;

  std::span<const int64_t> loads_;
};

Layer::Judged Layer::place(int lanes, const BalanceOptions& options) const {
  const int experts = static_cast<int>(loads_.size());
  LoadPlacementOptions tried{.lanes = lanes, .faults = options.faults};
  tried.slots = slots_of_lane(options, experts, lanes);
  const int most = tried.slots;
  Judged best = plan(tried);
  const double enough = options.gain * best.slowdown;
  const int least = even_slots(experts, lanes, options.faults + 1);
  for (int more = 0; least + more < most; more = 2 * more + 1) {
    tried.slots = least + more;
    if (!may_reach(enough, tried)) continue;
    Judged fewer = plan(tried);
    if (fewer.slowdown <= enough) return fewer;
  }
  return best;
}

// A lane has no less than any replica that it holds. A little more than asked is let pass, because
// slowdowns are rounded.
bool Layer::may_reach(double slowdown, const LoadPlacementOptions& options) const {
  const double sum = std::accumulate(loads_.begin(), loads_.end(), 0.0);
  const double most = slowdown * sum / options.lanes * (1 + 1e-9) + 1;
  return most >= 0x1p62 || may_keep_shares_within(loads_, options, static_cast<int64_t>(most));
}

struct Moved {
  bool moves = false;
  ExpertsOfNodes experts_of;     // if it moves
  double before = 1, after = 1;  // slowdowns
};

Moved look_at(const LayerBalance& balance, const BalanceOptions& options) {
  const Layer layer(balance);
  const double now = slowdown_of(balance.loads, balance.experts_of);
  const Moved stays{.before = now, .after = now};
  // Nothing is better than even.
  if (now < options.gain) return stays;
  const Layer::Judged next = layer.place(static_cast<int>(balance.experts_of.size()), options);
  if (next.slowdown >= now || now < options.gain * next.slowdown) return stays;
  ExpertsOfNodes plan = next.plan.experts_of();
  const NodeMatching matching = match_nodes(balance.experts_of, plan);
  return {.moves = true,
          .experts_of = on_physical_nodes(std::move(plan), matching),
          .before = now,
          .after = next.slowdown};
}

}  // namespace

int slots_of_lane(const BalanceOptions& options, int experts, int lanes) {
  const int least = even_slots(experts, lanes, options.faults + 1);
  const int wanted =
      options.slots > 0 ? options.slots : even_slots(experts, lanes, options.replicas) + 1;
  return std::min(experts, std::max(least, wanted));
}

ExpertBalance initial_balance(int64_t layers, int64_t experts) {
  const LayerBalance nothing{.loads = std::vector<int64_t>(static_cast<size_t>(experts)),
                             .experts_of = {}};
  return ExpertBalance(static_cast<size_t>(layers), nothing);
}

void settle(ExpertBalance& balance, std::span<const int> lanes, const BalanceOptions& options) {
  CHECK(balance.empty() || balance.size() == lanes.size()) << balance.size() << " layers";
  for (size_t l = 0; l < balance.size(); ++l) {
    LayerBalance& layer = balance[l];
    if (std::ssize(layer.experts_of) != lanes[l])
      layer.experts_of = Layer(layer).place(lanes[l], options).plan.experts_of();
  }
}

void count_step(ExpertBalance& balance, std::span<const double> tokens,
                const BalanceOptions& options) {
  for (LayerBalance& layer : balance) {
    for (int64_t& load : layer.loads) {
      CHECK(!tokens.empty()) << "choices of fewer layers";
      load += (static_cast<int64_t>(tokens.front()) * kLoadUnit - load) / options.memory_steps;
      tokens = tokens.subspan(1);
    }
  }
}

Rebalance rebalanced(const ExpertBalance& balance, const BalanceOptions& options) {
  Rebalance result{.moves = std::vector<bool>(balance.size())};
  if (balance.empty()) return result;
  double before = 0, after = 0;
  for (size_t l = 0; l < balance.size(); ++l) {
    Moved moved = look_at(balance[l], options);
    before += moved.before;
    after += moved.after;
    result.moves[l] = moved.moves;
    result.balance.push_back(
        {.loads = balance[l].loads,
         .experts_of = moved.moves ? std::move(moved.experts_of) : balance[l].experts_of});
  }
  const auto layers = static_cast<double>(balance.size());
  result.imbalance_before = before / layers;
  result.imbalance_after = after / layers;
  return result;
}

ExpertPlacement placement_of(const LayerBalance& layer) {
  std::vector<std::vector<int>> lanes_of(layer.loads.size());
  for (size_t lane = 0; lane < layer.experts_of.size(); ++lane) {
    for (const int expert : layer.experts_of[lane])
      lanes_of[static_cast<size_t>(expert)].push_back(static_cast<int>(lane));
  }
  return {std::move(lanes_of), static_cast<int>(layer.experts_of.size())};
}

bool is_placed_well(const ExpertsOfNodes& experts_of, int64_t experts) {
  std::vector<bool> is_placed(static_cast<size_t>(experts));
  for (const std::vector<int>& on_lane : experts_of) {
    for (size_t i = 0; i < on_lane.size(); ++i) {
      if (on_lane[i] < 0 || on_lane[i] >= experts || (i > 0 && on_lane[i] <= on_lane[i - 1]))
        return false;
      is_placed[static_cast<size_t>(on_lane[i])] = true;
    }
  }
  return std::ranges::count(is_placed, false) == 0;
}

std::vector<int64_t> to_numbers(const ExpertBalance& balance) {
  std::vector<int64_t> numbers;
  for (const LayerBalance& layer : balance) {
    numbers.insert(numbers.end(), layer.loads.begin(), layer.loads.end());
    numbers.push_back(std::ssize(layer.experts_of));
    for (const std::vector<int>& on_lane : layer.experts_of) {
      numbers.push_back(std::ssize(on_lane));
      numbers.insert(numbers.end(), on_lane.begin(), on_lane.end());
    }
  }
  return numbers;
}

absl::StatusOr<ExpertBalance> balance_from(std::span<const int64_t> numbers, int64_t layers,
                                           int64_t experts) {
  const absl::Status wrong = Corrupt("not a balance of experts of this model");
  const auto take = [&](int64_t count) {
    const auto taken = numbers.first(static_cast<size_t>(count));
    numbers = numbers.subspan(taken.size());
    return taken;
  };
  const auto has = [&](int64_t count) { return count >= 0 && count <= std::ssize(numbers); };
  ExpertBalance balance;
  for (int64_t l = 0; l < layers; ++l) {
    LayerBalance& layer = balance.emplace_back();
    if (!has(experts)) return wrong;
    const auto loads = take(experts);
    layer.loads.assign(loads.begin(), loads.end());
    if (std::ranges::any_of(loads, [](int64_t load) { return load < 0; }) || !has(1)) return wrong;
    const int64_t lanes = take(1)[0];
    if (!has(lanes)) return wrong;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      if (!has(1)) return wrong;
      const int64_t held = take(1)[0];
      if (!has(held)) return wrong;
      std::vector<int>& on_lane = layer.experts_of.emplace_back();
      for (const int64_t expert : take(held))
        on_lane.push_back(expert >= 0 && expert < experts ? static_cast<int>(expert) : -1);
    }
    if (lanes > 0 && !is_placed_well(layer.experts_of, experts)) return wrong;
  }
  if (!numbers.empty()) return wrong;
  return balance;
}

}  // namespace evermoe
