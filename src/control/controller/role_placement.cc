#include "control/controller/role_placement.h"

#include <algorithm>
#include <iterator>

#include "parallel/job_layout.h"

namespace evermoe {

void NodeTable::join(Node node, absl::Duration now) {
  leaving_.erase(node);
  nodes_[node] = {.is_up = true, .is_left_out = nodes_[node].is_left_out, .heard = now};
}

void NodeTable::leave(Node node) {
  nodes_.try_emplace(node);
  leaving_.insert(node);
}

void NodeTable::forget(Node node) {
  nodes_.erase(node);
  leaving_.erase(node);
}

void NodeTable::lose(Node node) {
  leaving_.erase(node);
  if (const auto found = nodes_.find(node); found != nodes_.end())
    found->second = {.heard = found->second.heard};
}

bool NodeTable::is_fit(Node node) const {
  const auto found = nodes_.find(node);
  return found != nodes_.end() && found->second.is_up && !found->second.is_left_out &&
         found->second.complaints.empty();
}

bool NodeTable::is_up(Node node) const { return is_fit(node) && !leaving_.contains(node); }

bool NodeTable::is_there(Node node) const {
  const auto found = nodes_.find(node);
  return found != nodes_.end() && found->second.is_up;
}

bool NodeTable::is_leaving(Node node) const { return leaving_.contains(node); }

std::vector<std::string> NodeTable::complaints(Node node) const {
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? std::vector<std::string>{} : found->second.complaints;
}

std::vector<Node> NodeTable::unfit() const {
  std::vector<Node> unfit;
  for (const auto& [node, state] : nodes_) {
    if (!state.complaints.empty()) unfit.push_back(node);
  }
  return unfit;
}

int NodeTable::up() const {
  return static_cast<int>(std::count_if(nodes_.begin(), nodes_.end(),
                                        [&](const auto& one) { return is_up(one.first); }));
}

int NodeTable::up_besides(Node node) const {
  return static_cast<int>(std::count_if(nodes_.begin(), nodes_.end(), [&](const auto& one) {
    return one.first != node && is_up(one.first);
  }));
}

bool NodeTable::is_in_doubt(Node node, absl::Duration now) const {
  const auto found = nodes_.find(node);
  return found == nodes_.end() || now - found->second.heard > doubt_after_;
}

std::vector<Node> NodeTable::usable(absl::Duration now) const {
  std::vector<Node> usable;
  for (const auto& [node, state] : nodes_) {
    if (is_up(node) && !is_in_doubt(node, now)) usable.push_back(node);
  }
  return usable;
}

bool NodeTable::is_last_resort(Node node) const {
  return is_leaving(node) && is_fit(node) && up() == 0;
}

std::vector<Node> NodeTable::last_resort(absl::Duration now) const {
  std::vector<Node> last;
  // What is true of one of them is true of all that are fit.
  const auto fit = std::ranges::find_if(leaving_, [&](Node node) { return is_fit(node); });
  if (fit == leaving_.end() || !is_last_resort(*fit)) return last;
  std::copy_if(fit, leaving_.end(), std::back_inserter(last),
               [&](Node node) { return is_fit(node) && !is_in_doubt(node, now); });
  return last;
}

std::vector<Node> NodeTable::leaving() const {
  std::vector<Node> leaving;
  std::ranges::copy_if(leaving_, std::back_inserter(leaving),
                       [&](Node node) { return is_there(node); });
  return leaving;
}

std::optional<absl::Duration> NodeTable::heard(Node node) const {
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? std::nullopt : std::optional(found->second.heard);
}

int roles_at_start(int roles, int nodes_at_start) {
  return (roles + nodes_at_start - 1) / nodes_at_start;
}

namespace {

Node home_of(int32_t rank, int roles, int nodes_at_start) {
  return Node(first_node_of(rank, roles, nodes_at_start));
}

// The workers on each node, and those that will begin there.
std::map<Node, int> uses(const RoleTable& roles, int nodes_at_start) {
  std::map<Node, int> uses;
  for (int32_t r = 0; r < roles.size(); ++r) {
    const RoleState& role = roles[Rank(r)];
    if (role.phase() != RoleState::Phase::kNone)
      ++uses[role.node];
    else if (role.since == View(0))
      ++uses[home_of(r, roles.size(), nodes_at_start)];
  }
  return uses;
}

// Of these, the one with the fewest uses and fewer than `limit`.
std::optional<Node> least_used(const std::vector<Node>& nodes, std::map<Node, int> uses,
                               int limit) {
  std::optional<Node> best;
  for (const Node node : nodes) {
    if (uses[node] < (best ? uses[*best] : limit)) best = node;
  }
  return best;
}

// The node of these with room where another role of the block is that begins on one node.
std::optional<Node> with_neighbours(Rank rank, const RoleTable& roles,
                                    const std::vector<Node>& nodes, int nodes_at_start) {
  const auto home = [&](int32_t r) { return home_of(r, roles.size(), nodes_at_start); };
  const int room = roles_at_start(roles.size(), nodes_at_start);
  for (int32_t r = 0; r < roles.size(); ++r) {
    const RoleState& other = roles[Rank(r)];
    if (Rank(r) == rank || home(r) != home(rank.value) || other.phase() == RoleState::Phase::kNone)
      continue;
    if (std::ranges::count(nodes, other.node) > 0 && roles.workers_on(other.node) < room)
      return other.node;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Node> node_for(absl::Duration now, Rank rank, const PlacementState& state) {
  const RoleTable& roles = state.roles;
  const NodeTable& nodes = state.nodes;
  const RoleRestarts& restarts = state.restarts;
  const int nodes_at_start = state.nodes_at_start;
  const RoleState& role = roles[rank];
  const Node home = home_of(rank.value, roles.size(), nodes_at_start);
  const Node wanted = role.since == View(0) ? home : role.node;
  const auto is_avoided = [&](Node node) {
    return nodes.is_doubted(node) || restarts.avoids(rank, node);
  };
  if (nodes.is_up(wanted) && nodes.is_in_doubt(wanted, now)) return std::nullopt;
  const auto uses_now = uses(roles, nodes_at_start);
  if (const std::vector<Node> last = nodes.last_resort(now); !last.empty())
    return std::ranges::count(last, wanted) > 0 ? wanted
                                                : least_used(last, uses_now, roles.size() + 1);
  const std::vector<Node> usable = nodes.usable(now);
  std::vector<Node> welcoming = usable;
  std::erase_if(welcoming, is_avoided);
  const int at_start = roles_at_start(roles.size(), nodes_at_start);
  std::vector<Node> warm = welcoming;
  std::erase_if(warm, [&](Node node) { return state.standbys.warm(node) == 0; });
  if (nodes.is_up(wanted) && !is_avoided(wanted)) {
    const bool stays = !state.may_leave || role.since == View(0) || state.standbys.warm(wanted) > 0;
    return stays ? wanted : least_used(warm, uses_now, at_start).value_or(wanted);
  }
  if (nodes.is_up(wanted)) {
    // Two that cannot reach each other are not helped by taking each other's place.
    std::vector<Node> trusted = welcoming;
    std::erase_if(trusted, [&](Node node) { return restarts.is_avoided(node); });
    if (const auto node = least_used(trusted, uses_now, at_start)) return node;
    if (const auto node = least_used(welcoming, uses_now, at_start)) return node;
    if (!restarts.keeps_ending_only(rank, wanted)) return wanted;
    return least_used(trusted, uses_now, roles.size() + 1).value_or(wanted);
  }
  if (const auto node = with_neighbours(rank, roles, warm, nodes_at_start)) return node;
  if (const auto node = least_used(warm, uses_now, at_start)) return node;
  if (const auto node = with_neighbours(rank, roles, welcoming, nodes_at_start)) return node;
  return least_used(welcoming.empty() ? usable : welcoming, uses_now, roles.size() + 1);
}

int room(const RoleTable& roles, const NodeTable& nodes, int nodes_at_start, absl::Duration now) {
  const int at_start = roles_at_start(roles.size(), nodes_at_start);
  int room = 0;
  for (const Node node : nodes.usable(now)) room += std::max(0, at_start - roles.workers_on(node));
  return room;
}

CopyHolders holders_for(const Topology& topology, const RoleTable& roles,
                        const ControllerOptions& options) {
  const int world = roles.size();
  CopyHolders none;
  none.holders_of.resize(static_cast<size_t>(world));
  const int copies = std::min(options.copies, world - 1);
  if (!options.strategy.keeps_copies() || copies < 1) return none;
  std::vector<int> nodes;
  for (int r = 0; r < world; ++r) nodes.push_back(roles[Rank(r)].node.value);
  const int all_nodes =
      std::max(options.nodes + options.spares, *std::max_element(nodes.begin(), nodes.end()) + 1);
  return job_copy_holders(topology, nodes, domains_in_racks(all_nodes, options.racks), copies,
                          options.copy_level);
}

}  // namespace evermoe
