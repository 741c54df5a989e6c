#include "control/controller/role_placement.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace evermoe {

bool NodeTable::is_up(Node node) const {
  const auto found = nodes_.find(node);
  return found != nodes_.end() && found->second.is_up;
}

bool NodeTable::is_in_doubt(Node node, absl::Duration now) const {
  const auto found = nodes_.find(node);
  return found == nodes_.end() || now - found->second.heard > doubt_after_;
}

std::vector<Node> NodeTable::usable(absl::Duration now) const {
  std::vector<Node> usable;
  for (const auto& [node, state] : nodes_) {
    if (state.is_up && !is_in_doubt(node, now)) usable.push_back(node);
  }
  return usable;
}

std::optional<absl::Duration> NodeTable::heard(Node node) const {
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? std::nullopt : std::optional(found->second.heard);
}

namespace {

// Of these, the one with the fewest workers and fewer than `limit`.
std::optional<Node> least_used(const std::vector<Node>& nodes, const RoleTable& roles, int limit) {
  std::optional<Node> best;
  for (const Node node : nodes) {
    if (roles.workers_on(node) < (best ? roles.workers_on(*best) : limit)) best = node;
  }
  return best;
}

}  // namespace

std::optional<Node> node_for(Rank rank, const RoleTable& roles, const NodeTable& nodes,
                             const RoleRestarts& restarts, int nodes_at_start, absl::Duration now) {
  const RoleState& role = roles[rank];
  const Node home(static_cast<int32_t>(int64_t{rank.value} * nodes_at_start / roles.size()));
  const Node wanted = role.since == View(0) ? home : role.node;
  if (nodes.is_up(wanted) && nodes.is_in_doubt(wanted, now)) return std::nullopt;
  const std::vector<Node> usable = nodes.usable(now);
  std::vector<Node> welcoming = usable;
  std::erase_if(welcoming, [&](Node node) { return restarts.avoids(rank, node); });
  if (nodes.is_up(wanted)) {
    if (!restarts.avoids(rank, wanted)) return wanted;
    const int at_start = (roles.size() + nodes_at_start - 1) / nodes_at_start;
    return least_used(welcoming, roles, at_start).value_or(wanted);
  }
  return least_used(welcoming.empty() ? usable : welcoming, roles, roles.size() + 1);
}

CopyHolders holders_for(const Topology& topology, const RoleTable& roles,
                        const ControllerOptions& options) {
  const int world = roles.size();
  CopyHolders none;
  none.holders_of.resize(static_cast<size_t>(world));
  const int copies = std::min(options.copies, world - 1);
  if (!options.is_protected || copies < 1) return none;
  std::vector<int> nodes, processes;
  for (int r = 0; r < world; ++r) {
    nodes.push_back(roles[Rank(r)].node.value);
    processes.push_back(r);
  }
  const int all_nodes =
      std::max(options.nodes + options.spares, *std::max_element(nodes.begin(), nodes.end()) + 1);
  std::vector<DomainPath> paths(static_cast<size_t>(all_nodes));
  for (int n = 0; options.racks > 0 && n < all_nodes; ++n) {
    paths[static_cast<size_t>(n)].rack = absl::StrCat(int64_t{n} * options.racks / all_nodes);
  }
  const FailureDomains domains(paths);
  for (auto level = options.copy_level; level;
       level = level == DomainLevel::kNode ? std::nullopt : std::optional(DomainLevel::kNode)) {
    auto chosen = copy_holders(topology, nodes, domains, {copies, *level});
    if (chosen.ok()) return *std::move(chosen);
  }
  // Too few of them: other processes are better than nothing.
  auto chosen = copy_holders(topology, processes, FailureDomains::nodes_only(world),
                             {copies, DomainLevel::kNode});
  CHECK(chosen.ok()) << chosen.status();
  chosen->reason = absl::StrCat("copies of every rank at ", copies,
                                copies == 1 ? " other process" : " other processes",
                                ", for there are too few failure domains");
  return *std::move(chosen);
}

}  // namespace evermoe
