// Who plays which role, and who keeps whose copies.

#include "control/controller/controller_core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace evermoe {

int ControllerCore::workers_on(Node node) const {
  return static_cast<int>(
      std::count_if(role_states_.begin(), role_states_.end(), [&](const RoleState& role_state) {
        return role_state.phase != RoleState::Phase::kNone && role_state.node == node;
      }));
}

bool ControllerCore::is_in_doubt(Node node) const {
  const auto heard = agents_heard_.find(node);
  return heard == agents_heard_.end() || now_ - heard->second > options_.silence_max / 2;
}

// The node it was on, if that lives; at the start, blocks of neighbouring ranks per node; else the
// spare or the node with the fewest workers. Negative: nothing is started before more is known of
// the nodes.
Node ControllerCore::node_for(Rank rank) {
  const auto lives = [&](Node node) {
    const auto found = agents_.find(node);
    return found != agents_.end() && found->second;
  };
  const Node home(
      static_cast<int32_t>(int64_t{rank.value} * options_.nodes / topology_.world_size()));
  const Node wanted = role_state(rank).since == View(0) ? home : role_state(rank).node;
  if (lives(wanted)) return is_in_doubt(wanted) ? Node(-1) : wanted;
  std::optional<Node> best;
  for (const auto& [node, is_alive] : agents_) {
    if (!is_alive || is_in_doubt(node)) continue;
    const auto load = [&](Node n) { return workers_on(n); };
    if (!best || load(node) < load(*best)) best = node;
  }
  return best.value_or(Node(-1));
}

CopyHolders ControllerCore::holders() const {
  const int world = topology_.world_size();
  CopyHolders none;
  none.holders_of.resize(static_cast<size_t>(world));
  const int copies = std::min(options_.copies, world - 1);
  if (!options_.is_protected || copies < 1) return none;
  std::vector<int> nodes, processes;
  for (int r = 0; r < world; ++r) {
    nodes.push_back(role_states_[static_cast<size_t>(r)].node.value);
    processes.push_back(r);
  }
  const int all_nodes =
      std::max(options_.nodes + options_.spares, *std::max_element(nodes.begin(), nodes.end()) + 1);
  std::vector<DomainPath> paths(static_cast<size_t>(all_nodes));
  for (int n = 0; options_.racks > 0 && n < all_nodes; ++n) {
    paths[static_cast<size_t>(n)].rack = absl::StrCat(int64_t{n} * options_.racks / all_nodes);
  }
  const FailureDomains domains(paths);
  for (auto level = options_.copy_level; level;
       level = level == DomainLevel::kNode ? std::nullopt : std::optional(DomainLevel::kNode)) {
    auto chosen = copy_holders(topology_, nodes, domains, {copies, *level});
    if (chosen.ok()) return *std::move(chosen);
  }
  // Too few of them: other processes are better than nothing.
  auto chosen = copy_holders(topology_, processes, FailureDomains::nodes_only(world),
                             {copies, DomainLevel::kNode});
  CHECK(chosen.ok()) << chosen.status();
  chosen->reason = absl::StrCat("copies of every rank at ", copies,
                                copies == 1 ? " other process" : " other processes",
                                ", for there are too few failure domains");
  return *std::move(chosen);
}

void ControllerCore::start_missing() {
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    RoleState& missing = role_state(Rank(r));
    if (missing.phase != RoleState::Phase::kNone || missing.released) continue;
    if (missing.since != View(0) && now_ < start_at_) continue;
    const Node node = node_for(Rank(r));
    if (node.value < 0) continue;  // waits for an agent
    missing.node = node;
    missing.since = std::max(view_, View(1));
    missing.phase = RoleState::Phase::kStarting;
    missing.deadline = now_ + options_.start_max;
    missing.failures_seen = failures_counted_;
    actions_.push_back(StartWorker{node, Rank(r), missing.since});
  }
}

}  // namespace evermoe
