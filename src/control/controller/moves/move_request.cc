#include "control/controller/moves/move_request.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {
namespace {

absl::Status check_role(Rank rank, const MoveSurroundings& around) {
  if (rank.value < 0 || rank.value >= around.roles.size())
    return InvalidInput(absl::StrCat("there is no role of rank ", rank.value));
  const std::string name = around.topology.name_of(rank);
  if (around.roles[rank].phase() != RoleState::Phase::kJoined)
    return InvalidInput(absl::StrCat("role ", name, " is played by nobody at the moment"));
  if (std::ranges::binary_search(around.resting, rank))
    return InvalidInput(absl::StrCat("role ", name, " rests: it has no state to move"));
  return absl::OkStatus();
}

absl::Status check_target(absl::Duration now, Node to, const MoveSurroundings& around) {
  const std::string name = absl::StrCat("node ", to.value);
  if (!around.nodes.is_there(to)) return InvalidInput(absl::StrCat(name, " is not in this job"));
  if (around.nodes.is_leaving(to)) return InvalidInput(absl::StrCat(name, " leaves"));
  if (!around.nodes.is_up(to) || around.nodes.is_in_doubt(to, now))
    return InvalidInput(absl::StrCat(name, " is not fit to play a role"));
  return absl::OkStatus();
}

// Somebody who keeps its copies does not move with it.
absl::Status check_holders(const std::vector<Rank>& roles, const MoveSurroundings& around) {
  for (const Rank rank : roles) {
    const auto& holders = around.holders.holders_of[static_cast<size_t>(rank.value)];
    const bool is_kept = std::ranges::any_of(
        holders, [&](Rank holder) { return std::ranges::count(roles, holder) == 0; });
    if (is_kept) continue;
    return InvalidInput(absl::StrCat("all that keep the copies of role ",
                                     around.topology.name_of(rank),
                                     " would move with it: move them one after the other"));
  }
  return absl::OkStatus();
}

// The roles of a move that are on one node. They stay together where they can: so the layout of the
// copies has them.
std::vector<std::vector<Rank>> blocks_of(const std::vector<Rank>& roles, const RoleTable& table) {
  std::map<Node, std::vector<Rank>> by_node;
  for (const Rank rank : roles) by_node[table[rank].node].push_back(rank);
  std::vector<std::vector<Rank>> blocks;
  for (auto& [node, block] : by_node) blocks.push_back(std::move(block));
  return blocks;
}

// For `count` roles, where some of them have room: first of all a node with room for all of them,
// then one with a warm standby, then the one that plays the fewest.
std::optional<Node> best_target(const std::vector<Node>& candidates,
                                const std::map<Node, int>& played, int most, int count,
                                const StandbyBook& standbys) {
  std::optional<Node> best;
  const auto now = [&](Node node) { return played.contains(node) ? played.at(node) : 0; };
  const auto key = [&](Node node) {
    return std::tuple(now(node) + count > most, standbys.warm(node) == 0, now(node));
  };
  for (const Node node : candidates) {
    if (now(node) < most && (!best || key(node) < key(*best))) best = node;
  }
  return best;
}

absl::Status no_room(const std::string& where, Rank rank, int most,
                     const MoveSurroundings& around) {
  return InvalidInput(absl::StrCat(where, " room for role ", around.topology.name_of(rank),
                                   ": a node plays at most ", most, " of this job"));
}

// Each to the node that is named for it.
absl::StatusOr<std::vector<RoleMove>> named_moves(absl::Duration now,
                                                  const std::vector<Rank>& roles,
                                                  const std::vector<Node>& to,
                                                  std::map<Node, int> played, int most,
                                                  const MoveSurroundings& around) {
  if (to.size() != roles.size())
    return InvalidInput(absl::StrCat(to.size(), " nodes are named for ", roles.size(), " roles"));
  for (const Rank rank : roles) --played[around.roles[rank].node];
  std::vector<RoleMove> moves;
  for (size_t i = 0; i < roles.size(); ++i) {
    const std::string node = absl::StrCat("node ", to[i].value);
    RETURN_IF_ERROR(check_target(now, to[i], around));
    if (around.roles[roles[i]].node == to[i]) {
      return InvalidInput(
          absl::StrCat("role ", around.topology.name_of(roles[i]), " is on ", node, " already"));
    }
    if (++played[to[i]] > most) return no_room(node + " has no", roles[i], most, around);
    moves.push_back({roles[i], to[i]});
  }
  return moves;
}

// Each to where there is room.
absl::StatusOr<std::vector<RoleMove>> fitting_moves(absl::Duration now,
                                                    const std::vector<Rank>& roles,
                                                    std::map<Node, int> played, int most,
                                                    const MoveSurroundings& around) {
  std::vector<Node> candidates = around.nodes.usable(now);
  std::erase_if(candidates, [&](Node node) {
    const bool is_left =
        std::ranges::any_of(roles, [&](Rank rank) { return around.roles[rank].node == node; });
    return is_left || around.nodes.is_doubted(node) || around.avoided.contains(node);
  });
  std::vector<RoleMove> moves;
  for (const std::vector<Rank>& block : blocks_of(roles, around.roles)) {
    std::optional<Node> node;
    for (size_t i = 0; i < block.size(); ++i) {
      const int left = static_cast<int>(block.size() - i);
      if (!node || played[*node] >= most)
        node = best_target(candidates, played, most, left, around.standbys);
      if (!node) return no_room("no other node has", block[i], most, around);
      ++played[*node];
      moves.push_back({block[i], *node});
    }
  }
  return moves;
}

}  // namespace

absl::StatusOr<std::vector<RoleMove>> choose_moves(absl::Duration now,
                                                   const std::vector<Rank>& roles,
                                                   const std::vector<Node>& to,
                                                   const MoveSurroundings& around) {
  if (!around.options.strategy.keeps_copies()) {
    return InvalidInput(
        absl::StrCat("protection.strategy = ", std::string(to_string(around.options.strategy.kind)),
                     " keeps nothing in peers' memory that a role could be moved by"));
  }
  std::set<Rank> named;
  for (const Rank rank : roles) {
    RETURN_IF_ERROR(check_role(rank, around));
    if (!named.insert(rank).second)
      return InvalidInput(absl::StrCat("role ", around.topology.name_of(rank), " is named twice"));
  }
  RETURN_IF_ERROR(check_holders(roles, around));
  std::map<Node, int> played;
  for (const Node node : around.nodes.usable(now)) played[node] = around.roles.workers_on(node);
  const int most = roles_at_start(around.roles.size(), around.options.nodes);
  return to.empty() ? fitting_moves(now, roles, std::move(played), most, around)
                    : named_moves(now, roles, to, std::move(played), most, around);
}

}  // namespace evermoe
