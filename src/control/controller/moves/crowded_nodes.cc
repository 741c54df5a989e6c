#include "control/controller/moves/crowded_nodes.h"

#include <algorithm>
#include <map>
#include <optional>

#include "parallel/job_layout.h"

namespace evermoe {
namespace {

// The places that are left while roles are dealt to them.
class Places {
 public:
  Places(absl::Duration now, const CrowdedJob& job)
      : job_(job), share_(roles_at_start(job.roles.size(), job.nodes_at_start)) {
    for (const RoleState& role : job.roles.all()) {
      if (role.phase() != RoleState::Phase::kNone) ++played_[role.node];
    }
    if (most() <= share_) return;
    for (const Node node : job.nodes.usable(now)) {
      if (played_[node] < share_ && !is_bad(node)) open_.push_back(node);
    }
  }

  int most() const {
    int most = 0;
    for (const auto& [node, roles] : played_) most = std::max(most, roles);
    return most;
  }
  bool is_any_open() const { return !open_.empty(); }
  bool is_crowded(Node node) const { return played_.at(node) > share_; }
  // Roles of the least go first: their home is open, they are away from it, they are there.
  int reluctance(Rank rank) const {
    const Node home = home_of(rank);
    if (home == job_.roles[rank].node) return kReluctanceMax;
    return std::ranges::count(open_, home) > 0 && played_.at(home) < share_ ? 0 : 1;
  }
  static constexpr int kReluctanceMax = 2;
  // nullopt: there is no room any more.
  std::optional<Node> place(Rank rank) {
    std::optional<Node> best;
    const auto key = [&](Node node) { return std::pair(node != home_of(rank), played_[node]); };
    for (const Node node : open_) {
      if (played_[node] < share_ && (!best || key(node) < key(*best))) best = node;
    }
    if (!best) return best;
    ++played_[*best];
    --played_[job_.roles[rank].node];
    return best;
  }

 private:
  bool is_bad(Node node) const {
    return job_.nodes.is_doubted(node) || job_.slow.contains(node) ||
           job_.restarts.does_any_keep_ending(node);
  }
  Node home_of(Rank rank) const {
    return Node(first_node_of(rank.value, job_.roles.size(), job_.nodes_at_start));
  }

  const CrowdedJob& job_;
  const int share_;
  std::map<Node, int> played_;
  std::vector<Node> open_;
};

}  // namespace

Relief relieve_crowded_nodes(absl::Duration now, const CrowdedJob& job) {
  Places places(now, job);
  Relief relief{.moves = {}, .most = places.most()};
  if (!places.is_any_open()) return relief;
  std::set<Rank> placed;
  for (int reluctance = 0; reluctance <= Places::kReluctanceMax; ++reluctance) {
    for (int32_t r = 0; r < job.roles.size(); ++r) {
      const RoleState& role = job.roles[Rank(r)];
      const bool may_move = role.phase() == RoleState::Phase::kJoined &&
                            places.is_crowded(role.node) && !placed.contains(Rank(r)) &&
                            !std::ranges::binary_search(job.resting, Rank(r));
      if (!may_move || places.reluctance(Rank(r)) > reluctance) continue;
      const auto node = places.place(Rank(r));
      if (!node) break;
      placed.insert(Rank(r));
      relief.moves.push_back({Rank(r), *node});
    }
  }
  std::ranges::sort(relief.moves, {}, &RoleMove::rank);
  return relief;
}

}  // namespace evermoe
