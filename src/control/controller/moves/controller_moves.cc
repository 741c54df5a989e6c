// Planned moves: what a controller answers to those who want one, and what it does for it.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "control/controller/controller_core.h"
#include "control/controller/moves/move_request.h"

namespace evermoe {
namespace {

// Of a step: for which a job stands in a move while none was measured.
constexpr double kPauseSteps = 0.5;

}  // namespace

void ControllerCore::handle(const MoveWanted& event) {
  const absl::StatusOr<std::string> answer =
      event.drained ? drain_node(*event.drained)
                    : begin_move(event.roles, event.to, "an operator wants it");
  actions_.emplace_back(
      MoveAnswer{answer.ok(), answer.ok() ? *answer : std::string(answer.status().message())});
}

absl::StatusOr<std::string> ControllerCore::begin_move(const std::vector<Rank>& roles,
                                                       const std::vector<Node>& to,
                                                       const std::string& cause,
                                                       const std::set<Node>& avoided) {
  if (roles.empty()) return InvalidInput("no role is to move");
  if (!beginning_.is_over() || progress_.newest() < Commit(0))
    return InvalidInput("the job does not train yet");
  if (is_draining_ || roles_.is_released() || roles_.have_all_finished())
    return InvalidInput("the job is ending");
  if (moving_.is_under_way()) {
    return InvalidInput(absl::StrCat("another move is under way: ",
                                     absl::StrJoin(moving_.records().back().roles, ", ")));
  }
  const CopyHolders holders = this->holders();
  ASSIGN_OR_RETURN(const std::vector<RoleMove> moves,
                   choose_moves(now_, roles, to,
                                {topology_, roles_, nodes_, standbys_, holders,
                                 membership_.resting(), options_, avoided}));
  std::vector<std::string> parts;
  for (const RoleMove& move : moves) {
    parts.push_back(absl::StrCat("role ", name_of(move.rank), " moves from node ",
                                 roles_[move.rank].node.value, " to node ", move.node.value));
  }
  const std::string text = absl::StrJoin(parts, ", ");
  tell(absl::StrCat(text, ": ", cause));
  moving_.begin(now_, moves, roles_, cause);
  return absl::StrCat(text, ", as soon as a process is warm there and has its copies");
}

absl::StatusOr<std::string> ControllerCore::drain_node(Node node) {
  using Kind = LeavingDecision::Kind;
  if (!nodes_.is_there(node))
    return InvalidInput(absl::StrCat("node ", node.value, " is not in this job"));
  if (nodes_.is_leaving(node)) return absl::StrCat("node ", node.value, " leaves already");
  const LeavingDecision decision = decide_leaving(node);
  if (decision.kind == Kind::kDrainJob) {
    return InvalidInput(absl::StrCat("no other node can take the place of node ", node.value,
                                     "; evermoe drain saves and ends the whole job"));
  }
  handle(NodeLeaving{node});
  const std::string name = absl::StrCat("node ", node.value);
  if (decision.kind == Kind::kDismiss) return absl::StrCat(name, " plays no role and leaves");
  std::vector<std::string> names;
  for (const Rank rank : roles_.played_on(node)) names.push_back(name_of(rank));
  return absl::StrCat(name, " leaves when others play ", absl::StrJoin(names, ", "));
}

// The one that is under way, or the first attempt. False: its roles have to be taken away.
bool ControllerCore::moves_away_from(Node node, const std::string& why) {
  if (moving_.is_under_way()) return true;
  if (!moved_from_.insert(node).second) return false;
  return begin_move(roles_.played_on(node), {}, why).ok();
}

void ControllerCore::move_roles() {
  using Kind = RoleMoves::Action::Kind;
  if (!moving_.is_under_way()) return;
  const RoleMoves::Action action = moving_.next(now_, {.roles = roles_,
                                                       .nodes = nodes_,
                                                       .standbys = standbys_,
                                                       .is_calm = is_calm(),
                                                       .view = view(),
                                                       .newest = step_of(progress_.newest()),
                                                       .median_step = watch_.median_step()});
  for (const KeepStandbys& order : action.standbys) actions_.emplace_back(order);
  switch (action.kind) {
    case Kind::kNothing:
    case Kind::kKeepStandbys: return;
    case Kind::kPrepare: return order_joiners(action.roles, /*is_off=*/false);
    case Kind::kLeave: tell(action.news); return order_to_leave(action);
    case Kind::kStay:
      tell(action.news);
      if (!action.keeps_joiners) order_joiners(action.roles, /*is_off=*/true);
      return order_to_leave(action);
    case Kind::kSwitch: return switch_roles(action.roles, action.news);
  }
}

void ControllerCore::order_joiners(const std::vector<RoleMove>& moves, bool is_off) {
  for (const auto& [rank, node] : moves) {
    const RoleState& role = roles_[rank];
    actions_.emplace_back(
        JoinerWanted{node, rank, view(), view_.next(), {role.address, role.since}, is_off});
  }
}

void ControllerCore::order_to_leave(const RoleMoves::Action& action) {
  const bool is_off = action.kind == RoleMoves::Action::Kind::kStay;
  for (const RoleMove& move : action.roles) {
    const RoleState& role = roles_[move.rank];
    if (role.phase() != RoleState::Phase::kJoined) continue;
    LeaveOrder order{.view = view(), .stop_at = action.stop_at, .is_off = is_off};
    if (!is_off) order.joiner = action.joiners.at(move.rank);
    actions_.push_back(SendOrder{move.rank, role.since, std::move(order)});
  }
}

// The controller before may have told it to leave, and has taken the wish with it: it would wait
// for a switch that nobody makes.
void ControllerCore::call_off_former_move(const MemberJoined& event) {
  if (!event.is_open || !options_.strategy.keeps_copies()) return;
  actions_.push_back(
      SendOrder{event.rank, event.since, LeaveOrder{.view = event.newest_view, .is_off = true}});
}

// How many of the processes whose roles move away are to wait on their node. Not where one was
// slow.
std::map<Node, int> ControllerCore::leavers_that_stand_by(
    const std::vector<RoleMove>& moves) const {
  if (options_.standbys == 0) return {};
  std::map<Node, int> roles_of = standby_nodes(), leavers;
  StandbyBook left = standbys_;
  for (const RoleMove& move : moves) {
    const Node from = roles_[move.rank].node;
    if (!slow_nodes_.contains(from)) ++leavers[from];
    if (const auto node = roles_of.find(from); node != roles_of.end()) --node->second;
    if (const auto node = roles_of.find(move.node); node != roles_of.end()) ++node->second;
    left.on_start(move.node);
  }
  return left.among(leavers, roles_of);
}

// Nobody is lost: what they had is with those who take their roles.
void ControllerCore::switch_roles(const std::vector<RoleMove>& moves, const std::string& news) {
  std::map<Node, int> standing_by = leavers_that_stand_by(moves);
  for (const RoleMove& move : moves) {
    const RoleState& role = roles_[move.rank];
    const bool stands_by = standing_by[role.node]-- > 0;
    if (stands_by) standbys_.expect(role.node);
    actions_.push_back(KillWorker{role.node, move.rank, role.since,
                                  absl::StrCat("its role moves to node ", move.node.value),
                                  stands_by});
    forget_complaints(move.rank);
    roles_.lose(move.rank);
    moves_[move.rank] = move.node;
  }
  watch_.end_probe();
  open_next_view(absl::StrCat(news, ": the states are handed over"), moving_.records().back().step);
}

// It takes as long as the last one did, or would have with a process that is warm already.
MovePayoff ControllerCore::payoff_of_move(absl::Duration excess) const {
  const absl::Duration step = watch_.mean_step();
  if (step <= absl::ZeroDuration()) return {};
  const bool is_warm = standbys_.is_any_warm();
  MoveCosts costs{
      .step = step,
      .excess = excess,
      .preparation = is_warm ? absl::ZeroDuration() : options_.expected_move.preparation,
      .pause = std::max(options_.expected_move.pause, kPauseSteps * step),
      .steps_left = options_.steps.value - step_of(progress_.newest()).value};
  const auto& records = moving_.records();
  const auto last = std::find_if(records.rbegin(), records.rend(), [](const MoveRecord& move) {
    return move.state == MoveRecord::State::kDone;
  });
  if (last != records.rend()) {
    costs.preparation = last->stopped - (is_warm ? last->warm : last->asked);
    costs.pause = pause_of(*last);
  }
  return payoff_of(costs);
}

}  // namespace evermoe
