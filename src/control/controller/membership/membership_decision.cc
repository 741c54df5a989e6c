#include "control/controller/membership/membership_decision.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

namespace evermoe {
namespace {

// Who trains, while that is being decided.
class Lanes {
 public:
  Lanes(const Topology& topology, std::span<const Node> node_of)
      : topology_(topology), node_of_(node_of), trains_(node_of.size(), true) {
    for (int stage = 0; stage < topology.stages(); ++stage)
      training_.push_back(topology.lanes(stage));
    for (const Node node : node_of) ++on_node_[node];
  }

  bool trains(Rank rank) const { return trains_[index(rank)]; }
  int on(Node node) const {
    const auto found = on_node_.find(node);
    return found == on_node_.end() ? 0 : found->second;
  }
  Node node_of(Rank rank) const { return node_of_[index(rank)]; }
  // How many lanes of its stage train, and the part of all that is.
  int training(Rank rank) const {
    return training_[static_cast<size_t>(topology_.role_of(rank).stage)];
  }
  double width(Rank rank) const {
    return static_cast<double>(training(rank)) / topology_.lanes(topology_.role_of(rank).stage);
  }
  void rest(Rank rank) { set(rank, false, -1); }
  void train(Rank rank) { set(rank, true, 1); }

 private:
  static size_t index(Rank rank) { return static_cast<size_t>(rank.value); }
  void set(Rank rank, bool trains, int more) {
    trains_[index(rank)] = trains;
    on_node_[node_of(rank)] += more;
    training_[static_cast<size_t>(topology_.role_of(rank).stage)] += more;
  }

  const Topology& topology_;
  const std::span<const Node> node_of_;
  std::vector<bool> trains_;
  std::vector<int> training_;  // by stage
  std::map<Node, int> on_node_;
};

bool contains(const RestingRoles& resting, Rank rank) {
  return std::ranges::binary_search(resting, rank);
}

}  // namespace

RestingRoles decide_resting(const Topology& topology, std::span<const Node> node_of,
                            const RestingRoles& now, int share, std::span<const int> widths) {
  Lanes lanes(topology, node_of);
  RestingRoles resting;
  // Of the roles that may, one rests: of the widest stage, and where that is equal one that rests
  // already.
  const auto one_rests = [&](const auto& may) {
    using Merit = std::tuple<double, bool, int32_t>;
    std::optional<std::pair<Merit, Rank>> best;
    for (int32_t r = 0; r < topology.world_size(); ++r) {
      const Rank rank(r);
      if (!lanes.trains(rank) || topology.role_of(rank).lane == 0 || !may(rank)) continue;
      const Merit merit{lanes.width(rank), contains(now, rank), r};
      if (!best || merit > best->first) best = {merit, rank};
    }
    if (!best) return false;
    lanes.rest(best->second);
    resting.push_back(best->second);
    return true;
  };
  while (one_rests([&](Rank rank) { return lanes.on(lanes.node_of(rank)) > share; })) {
  }
  while (one_rests([&](Rank rank) {
    const int trains = lanes.training(rank);
    return trains > width_of(widths, trains);
  })) {
  }
  std::ranges::sort(resting);
  return resting;
}

std::vector<RoleMove> decide_wakes(const Topology& topology, std::span<const Node> node_of,
                                   const RestingRoles& now, std::span<const Node> usable,
                                   int share) {
  std::map<Node, int> played;
  for (const Node node : node_of) ++played[node];
  Lanes lanes(topology, node_of);
  for (const Rank rank : now) lanes.rest(rank);
  std::vector<RoleMove> moves;
  for (const Node node : usable) {
    while (played[node] < share) {
      std::optional<Rank> best;
      for (const Rank rank : now) {
        if (lanes.trains(rank) || played[lanes.node_of(rank)] <= share) continue;
        if (!best || lanes.width(rank) < lanes.width(*best)) best = rank;
      }
      if (!best) return moves;
      --played[lanes.node_of(*best)];
      ++played[node];
      lanes.train(*best);
      moves.push_back({*best, node});
    }
  }
  return moves;
}

std::optional<Node> node_to_share(const Topology& topology, Rank rank,
                                  std::span<const Node> node_of, const RestingRoles& now,
                                  std::span<const Node> candidates) {
  Lanes lanes(topology, node_of);
  for (const Rank resting : now) lanes.rest(resting);
  std::optional<std::pair<double, Node>> best;
  for (const Node node : candidates) {
    // What may rest there, by the width of its stage; nothing: worse than everything.
    double width = topology.role_of(rank).lane > 0 ? lanes.width(rank) : 0;
    for (int32_t r = 0; r < topology.world_size(); ++r) {
      if (lanes.node_of(Rank(r)) == node && topology.role_of(Rank(r)).lane > 0 && Rank(r) != rank)
        width = std::max(width, lanes.width(Rank(r)));
    }
    if (!best || width > best->first) best = {width, node};
  }
  return best ? std::optional(best->second) : std::nullopt;
}

}  // namespace evermoe
