// Who trains: what a controller does about nodes that are gone and nodes that come.

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/controller/controller_core.h"

namespace evermoe {
namespace {

constexpr double kWaitOfRest = 0.25;  // of the time that is left of a job

}  // namespace

std::vector<Node> ControllerCore::nodes_of_roles() const {
  std::vector<Node> nodes;
  for (const RoleState& role : roles_.all()) nodes.push_back(role.node);
  return nodes;
}

// For the plan that is about to be made: all roles are played.
std::optional<MembershipChange> ControllerCore::wanted_membership() const {
  if (!options_.elastic.is_enabled) return std::nullopt;
  const std::vector<Node> nodes = nodes_of_roles();
  MembershipChange wanted;
  wanted.resting =
      decide_resting(topology_, nodes, membership_.resting(), share(), options_.elastic.widths);
  wanted.nodes = static_cast<int32_t>(std::set<Node>(nodes.begin(), nodes.end()).size());
  wanted.cause = membership_.cause();
  return wanted;
}

// The plan that is about to be made does where others train then, and where a recovery is lossy.
bool ControllerCore::may_change_bits() {
  if (!options_.strategy.is_exact) return is_host_still();
  const auto wanted = wanted_membership();
  const bool is_known = membership_.is_known() || !options_.takes_over;
  if (!wanted || (is_known && wanted->resting == membership_.resting())) return true;
  return is_host_still();
}

// False: it is asked, and may be told.
bool ControllerCore::is_host_still() {
  if (term_.is_held()) return true;
  if (auto question = term_.ask(now_)) actions_.emplace_back(*question);
  return false;
}

LanesChanged ControllerCore::news_of(const MembershipChange& change) const {
  const Topology lanes = Membership(topology_, change.resting).lanes();
  LanesChanged news{.step = change.step, .nodes = change.nodes, .cause = change.cause};
  for (int stage = 0; stage < lanes.stages(); ++stage) news.lanes.push_back(lanes.lanes(stage));
  if (news.nodes == 0) {
    const std::vector<Node> nodes = nodes_of_roles();
    news.nodes = static_cast<int32_t>(std::set<Node>(nodes.begin(), nodes.end()).size());
  }
  return news;
}

void ControllerCore::tell_lanes(const std::vector<MembershipChange>& changes) {
  for (const MembershipChange& change : changes) {
    LanesChanged news = news_of(change);
    if (change.step >= Step(0)) {
      const Topology lanes = Membership(topology_, change.resting).lanes();
      tell(absl::StrCat("from step ", change.step.value, " on ", lanes.to_string(), " train on ",
                        news.nodes, news.nodes == 1 ? " node" : " nodes",
                        change.cause.empty() ? "" : ": ", change.cause));
    }
    actions_.emplace_back(std::move(news));
  }
}

void ControllerCore::tell_lanes(const MembershipBook::News& news) {
  if (news.base) {
    LanesChanged base = news_of(*news.base);
    base.is_base = true;
    actions_.emplace_back(std::move(base));
  }
  tell_lanes(news.changes);
}

std::optional<Node> ControllerCore::node_to_start(Rank rank) {
  if (const auto move = moves_.find(rank); move != moves_.end()) {
    const Node to = move->second;
    moves_.erase(move);
    if (nodes_.is_up(to)) return to;
  }
  const auto node =
      node_for(now_, rank,
               {.roles = roles_,
                .nodes = nodes_,
                .restarts = rules_.restarts(),
                .standbys = standbys_,
                .nodes_at_start = options_.nodes,
                // Without copies what a role goes back to may be on its machine's own disk.
                .may_leave = options_.strategy.keeps_copies() && !options_.elastic.is_enabled});
  const bool is_crowded = node && *node != roles_[rank].node &&
                          roles_.workers_on(*node) >= share() && options_.elastic.is_enabled;
  if (!is_crowded) return node;
  std::vector<Node> equal = nodes_.usable(now_);
  std::erase_if(equal, [&](Node other) {
    return is_quarantined(other) || roles_.workers_on(other) != roles_.workers_on(*node);
  });
  const auto shared =
      node_to_share(topology_, rank, nodes_of_roles(), membership_.resting(), equal);
  return shared ? shared : node;
}

// Roles that rest have nothing that a newcomer would need, once a window is complete on the lanes
// of now.
std::vector<RoleMove> ControllerCore::possible_wakes() const {
  const bool is_calm = options_.elastic.is_enabled && is_open() && !has_ended_ && !is_draining_ &&
                       beginning_.is_over() && !journal_.is_loading() && journal_.incident() == 0 &&
                       membership_.is_known() && membership_.is_settled() && !roles_.is_released();
  if (!is_calm || membership_.resting().empty()) return {};
  const bool is_safe =
      !options_.strategy.keeps_copies() || copies_.window() >= membership_.newest_change();
  if (!is_safe || !roles_.are_all_joined()) return {};
  std::vector<Node> usable = nodes_.usable(now_);
  std::erase_if(usable, [&](Node node) { return is_quarantined(node); });
  return decide_wakes(topology_, nodes_of_roles(), membership_.resting(), usable, share());
}

// For a warm process: a node that waits does nothing meanwhile, which the rest of the job has to be
// worth.
absl::Duration ControllerCore::wake_wait_max() const {
  const absl::Duration step = watch_.median_step();
  if (step <= absl::ZeroDuration()) return options_.start_max;
  const int64_t left = options_.steps.value - step_of(progress_.newest()).value;
  return std::min(options_.start_max, kWaitOfRest * static_cast<double>(left) * step);
}

void ControllerCore::wake_roles() {
  const std::vector<RoleMove> moves = possible_wakes();
  if (moves.empty() || now_ < newest_node_came_ + options_.elastic.grow_wait)
    return waking_.forget();
  const auto prepared = waking_.decide(now_, moves, standbys_, wake_wait_max());
  for (const KeepStandbys& order : prepared.orders) {
    tell(absl::StrCat("node ", order.node.value,
                      " has come: a process becomes warm there before a role moves to it"));
    actions_.emplace_back(order);
  }
  if (!prepared.is_over) return;
  waking_.forget();
  for (const RoleMove& move : moves) {
    moves_[move.rank] = move.node;
    membership_.on_news(absl::StrCat("node ", move.node.value, " has come"));
    const std::string why = absl::StrCat("moves to node ", move.node.value, ", to train there");
    kill_and_lose(move.rank, why, why);
    if (has_ended_) return;
  }
}

void ControllerCore::follow_node_count() {
  const ElasticOptions& elastic = options_.elastic;
  if (!elastic.is_enabled || is_draining_ || !is_open() || journal_.is_loading()) return;
  // Who knows of none is cut off itself.
  if (nodes_.up() == 0 || nodes_.up() >= elastic.nodes_min || roles_.is_released()) return;
  if (!is_host_still()) return;
  const std::string why =
      absl::StrCat(nodes_.up(), nodes_.up() == 1 ? " node is" : " nodes are",
                   " left, and elastic.min_nodes is ", elastic.nodes_min, ": all save and end");
  is_draining_ = true;
  tell(why);
  actions_.emplace_back(DrainJob{why});
}

}  // namespace evermoe
