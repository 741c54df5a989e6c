#include "control/controller/controller_core.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace evermoe {

using Phase = RoleState::Phase;

namespace {

// Signs of life are most of what a controller hears. Nothing becomes due because of one, and to
// look at all roles for each of them would cost the square of their number.
bool is_routine(const ControllerEvent& event, const NodeTable& nodes, absl::Duration now) {
  if (const auto* const said = std::get_if<MemberSaid>(&event))
    return std::holds_alternative<Progress>(said->message);
  if (const auto* const agent = std::get_if<AgentAlive>(&event))
    return !nodes.is_in_doubt(agent->node, now);
  // What becomes of nodes that leave is decided when all that leave together are known.
  return std::holds_alternative<MemberAlive>(event) || std::holds_alternative<NodeLeaving>(event);
}

}  // namespace

ControllerCore::ControllerCore(Topology topology, ControllerOptions options, absl::Duration now)
    : topology_(std::move(topology)),
      options_(options),
      now_(now),
      roles_(topology_.world_size()),
      nodes_(options.silence_max / 2),
      standbys_(options.standbys),
      view_(topology_, options_),
      copies_(options_.strategy),
      membership_(topology_),
      term_(options_),
      journal_(topology_, options_.incidents_after),
      moving_(topology_, options_),
      beginning_(options_, now),
      rules_(topology_, options_),
      former_losses_(options_.views_after),
      silence_(options_),
      watch_(options_),
      arithmetic_(topology_),
      stragglers_(topology_, options_.stragglers),
      links_(options_.stragglers) {}

std::vector<ControllerAction> ControllerCore::on(absl::Duration now, const ControllerEvent& event) {
  now_ = std::max(now_, now);
  actions_.clear();
  if (has_ended_) return {};
  const bool is_only_noted = is_routine(event, nodes_, now_);
  std::visit([this](const auto& e) { handle(e); }, event);
  if (is_only_noted) return std::exchange(actions_, {});
  if (!has_ended_) check_deadlines();
  if (!has_ended_) watch_stragglers();
  if (!has_ended_) reconsider();
  return std::exchange(actions_, {});
}

absl::Duration ControllerCore::next_deadline() const {
  absl::Duration next = beginning_.deadline(nodes_, {view(), is_open()});
  next = std::min(next, roles_.next_deadline());
  if (is_open() && suspicion_) next = std::min(next, suspicion_->due());
  for (const Rank missing : roles_.without_process()) {
    const absl::Duration start_at = rules_.start_at(missing);
    if (!roles_.is_released() && start_at > now_) next = std::min(next, start_at);
  }
  if (!roles_.without_process().empty() && term_.due() > now_) next = std::min(next, term_.due());
  next = std::min(next, moving_.deadline());
  if (!nodes_.leaving().empty() && beginning_.others_until() > now_)
    next = std::min(next, beginning_.others_until());
  const absl::Duration grows_at = newest_node_came_ + options_.elastic.grow_wait;
  if (now_ < grows_at && !possible_wakes().empty()) next = std::min(next, grows_at);
  next = std::min(next, waking_.deadline());
  return std::min(next, pace_deadline());
}

void ControllerCore::tell_in_view(const std::string& text) {
  tell_in_incident(absl::StrCat("view ", view().value, ": ", text));
}

// ---- time

void ControllerCore::check_deadlines() {
  for (const Rank rank : silence_.due(now_, roles_)) {
    const std::string why = silence_.verdict(now_, rank, roles_, nodes_);
    if (why.empty()) continue;
    forget_complaints(rank);
    kill_and_lose(rank, why, why);
    if (has_ended_) return;
  }
  if (is_open() && suspicion_ && now_ >= suspicion_->due()) {
    follow_suspicion();
    if (!is_open()) return;
  }
  if (!has_ended_) watch_pace();
}

void ControllerCore::follow_suspicion() {
  if (const auto node = node_at_fault()) {
    const std::vector<Rank> played = roles_.played_on(*node);
    if (std::ranges::any_of(played, [&](Rank rank) { return suspicion_->concerns(rank); }))
      return lose_unreached(*node);
  }
  if (const auto accused = suspicion_->accused(); accused && may_more_be_said(*accused))
    return suspicion_->wait_until(suspicion_->due() - options_.grace + options_.others_wait);
  const Suspicion suspicion = *std::exchange(suspicion_, std::nullopt);
  const std::optional<Rank> accused = suspicion.accused();
  if (!accused) return open_next_view(suspicion.what());
  const Node node = roles_[*accused].node, other = roles_[*suspicion.accuser_of(*accused)].node;
  kill_and_lose(*accused, suspicion.what(), absl::StrCat("accused: ", suspicion.what()));
  // One of the two has to play elsewhere.
  if (!has_ended_ && node != other && troubles_.replace(node, other)) rules_.on_unreached(*accused);
}

// Of one that has died its agent tells, and nobody hears of a machine that is switched off.
bool ControllerCore::may_more_be_said(Rank accused) const {
  return !suspicion_->has_waited() && options_.others_wait > options_.grace &&
         !nodes_.is_in_doubt(roles_[accused].node, now_);
}

// Only one that plays roles can be.
std::optional<Node> ControllerCore::node_at_fault() const {
  const auto node = troubles_.at_fault([this](Node one) { return nodes_.heard(one); });
  return node && roles_.workers_on(*node) > 0 ? node : std::nullopt;
}

// Somebody who waits for nobody hangs, whatever network is out elsewhere.
bool ControllerCore::may_explain(Node node, const std::vector<Rank>& still) const {
  return std::ranges::any_of(
      still, [&](Rank rank) { return roles_[rank].waits || roles_[rank].node == node; });
}

void ControllerCore::lose_unreached(Node node) {
  const std::string why = absl::StrCat("the workers of node ", node.value, " and those of ",
                                       troubles_.partners(node), " do not reach each other");
  suspicion_.reset();
  for (const Rank rank : roles_.played_on(node)) {
    kill_and_lose(rank, why, why);
    if (has_ended_) return;
    rules_.on_unreached(rank);
  }
}

absl::Duration ControllerCore::pace_deadline() const {
  if (!is_open() || has_ended_ || !beginning_.is_over()) return absl::InfiniteDuration();
  return watch_.deadline(progress_.newest(), journal_.is_loading());
}

void ControllerCore::watch_pace() {
  if (now_ < pace_deadline()) return;
  if (are_all_out_of_sight(now_, roles_, nodes_)) return watch_.on_nobody_in_sight(now_);
  const StandstillDecision decision =
      watch_.on_deadline(now_, {topology_, roles_, view(), progress_, journal_.is_loading()});
  switch (decision.kind) {
    case StandstillDecision::Kind::kWait: return;
    case StandstillDecision::Kind::kProbe: break;
    case StandstillDecision::Kind::kGoBack: view_.go_back_next(decision.why); break;
    case StandstillDecision::Kind::kRestart: view_.restart_next(decision.why); break;
    case StandstillDecision::Kind::kReplace:
      if (const auto node = node_at_fault(); node && may_explain(*node, decision.still))
        return lose_unreached(*node);
      for (const Rank rank : decision.still) {
        kill_and_lose(rank, decision.why, decision.why);
        if (has_ended_) return;
      }
      return;
  }
  open_next_view(decision.why);
}

// ---- views

void ControllerCore::open_next_view(const std::string& why, Step handed_over) {
  view_.open_next();
  suspicion_.reset();
  watch_.on_stop();
  tell_in_view(why);
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    RoleState& member = roles_[Rank(r)];
    member.report.reset();
    if (member.phase() != Phase::kJoined) continue;
    roles_.ask(Rank(r), now_ + options_.report_max);
    actions_.push_back(
        SendOrder{Rank(r), member.since, StopOrder{view(), journal_.incident(), handed_over}});
  }
}

void ControllerCore::reconsider() {
  if (!beginning_.is_over()) begin();
  if (has_ended_ || !beginning_.is_over()) return;
  let_go();
  if (has_ended_) return;
  follow_node_count();
  wake_roles();
  if (has_ended_) return;
  relieve_crowded();
  move_roles();
  start_missing();
  keep_standbys();
  if (is_open()) return release_if_finished();
  if (roles_.have_all_reported() && may_change_bits()) send_plan();
}

void ControllerCore::begin() {
  using Kind = BeginningDecision::Kind;
  const BeginningDecision decision = beginning_.decide(now_, roles_, nodes_, {view(), is_open()});
  if (!decision.news.empty()) tell(decision.news);
  if (decision.kind == Kind::kCheckNetwork) actions_.emplace_back(CheckNetwork{});
  if (decision.kind == Kind::kRefuse) return end({.bad_input = true, .reason = decision.why});
  if (!beginning_.is_over()) return;
  const bool has_lost_others = lose_other_runs();
  if (view() > View(0)) {
    for (const Rank rank : absent_roles(roles_))
      note_loss(rank, "gone when the new controller came");
  }
  watch_.begin(now_);
  if (decision.kind == Kind::kOpenView) return open_next_view(decision.why);
  if (has_lost_others) return open_next_view("a new controller takes over");
  if (options_.elastic.is_enabled && !membership_.is_known())
    open_next_view("a new controller takes over: who rests?");
}

void ControllerCore::let_go() {
  for (const Node node : nodes_that_leave(roles_, nodes_)) {
    if (has_ended_ || is_draining_) return;
    let_go(node);
  }
}

LeavingDecision ControllerCore::decide_leaving(Node node) const {
  return evermoe::decide_leaving(
      now_, node,
      {roles_, nodes_, copies_, is_open(), journal_.is_loading(), beginning_.others_until()},
      options_);
}

void ControllerCore::let_go(Node node) {
  const LeavingDecision decision = decide_leaving(node);
  switch (decision.kind) {
    case LeavingDecision::Kind::kWait: return;
    case LeavingDecision::Kind::kDismiss:
      nodes_.forget(node);
      standbys_.forget(node);
      moved_from_.erase(node);
      actions_.emplace_back(DismissNode{node});
      return;
    case LeavingDecision::Kind::kOpenView: return open_next_view(decision.why);
    case LeavingDecision::Kind::kDrainJob:
      is_draining_ = true;
      tell(decision.why);
      actions_.emplace_back(DrainJob{decision.why});
      return;
    case LeavingDecision::Kind::kMoveRoles:
      if (moves_away_from(node, decision.why)) return;
      for (const Rank rank : roles_.played_on(node)) {
        kill_and_lose(rank, decision.why, decision.why);
        if (has_ended_) return;
      }
      return let_go(node);
  }
}

void ControllerCore::start_missing() {
  const std::set<Rank> without_process = roles_.without_process();
  if (roles_.is_released() || without_process.empty()) return;
  if (!is_host_still() && !term_.may_start_roles(now_)) return;
  for (const Rank rank : without_process) {
    RoleState& missing = roles_[rank];
    if (missing.since != View(0) && now_ < rules_.start_at(rank)) continue;
    const bool is_told = moves_.contains(rank);  // where it goes, and why
    const auto node = node_to_start(rank);
    if (!node) continue;  // waits for an agent
    if (missing.since != View(0) && *node != missing.node && !is_told)
      tell_why_elsewhere(rank, *node);
    standbys_.on_start(*node);
    stragglers_.forget(rank);
    rules_.on_start(now_, rank, *node, missing);
    roles_.start(rank, *node, std::max(view(), View(1)), now_ + options_.start_max);
    actions_.push_back(StartWorker{*node, rank, missing.since, journal_.incident()});
  }
}

// Where it is not for the loss of its node.
void ControllerCore::tell_why_elsewhere(Rank rank, Node node) {
  const Node former = roles_[rank].node;
  std::string why;
  if (rules_.restarts().avoids(rank, former))
    why = absl::StrCat("it ", rules_.restarts().reason(now_, rank));
  else if (nodes_.is_doubted(former))
    why = absl::StrCat("node ", former.value, " is quarantined");
  else if (nodes_.is_up(former) && standbys_.warm(node) > 0)
    why = "a standby is warm there";
  if (why.empty()) return;
  tell_in_incident(
      absl::StrCat("worker ", name_of(rank), " moves to node ", node.value, ": ", why));
}

// It trains, and nobody is missing.
bool ControllerCore::is_calm() const {
  return is_open() && !journal_.is_loading() && journal_.incident() == 0 &&
         progress_.newest() > Commit(-1) && !moving_.is_switching() && !is_draining_ &&
         !roles_.is_released() && roles_.are_all_joined();
}

// Where they may live, and how many roles each node plays.
std::map<Node, int> ControllerCore::standby_nodes() const {
  std::map<Node, int> roles_of;
  for (const Node node : nodes_.usable(now_)) {
    if (!is_quarantined(node)) roles_of[node] = roles_.workers_on(node);
  }
  return roles_of;
}

// Warming up takes processors: not while the job gets over a loss, nor before it trains.
void ControllerCore::keep_standbys() {
  if (options_.standbys == 0 || !is_calm()) return;
  for (const KeepStandbys& order : standbys_.missing(standby_nodes())) actions_.emplace_back(order);
}

void ControllerCore::send_plan() {
  const CopyHolders holders = this->holders();
  Plan plan = view_.plan(roles_, holders, wanted_membership());
  const bool replaces_itself = journal_.incident() > 0 || moving_.is_switching();
  for (const Rank rank : former_losses_.take_replaced(roles_, progress_.newest(), replaces_itself))
    note_loss(rank, "replaced when the new controller came");
  plan.incident = journal_.incident();
  if (!may_send(plan)) return;
  rules_.on_plan();
  journal_.on_plan(now_, plan);
  watch_.on_plan(now_);
  for (const std::string& reason : plan.reasons) tell_in_view(reason);
  if (std::exchange(holders_told_, holders.reason) != holders.reason) tell_in_view(holders.reason);
  moving_.on_plan(now_);
  copies_.on_plan(plan, roles_);
  tell_lanes(membership_.on_plan(plan));
  view_.open(plan);
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    RoleState& member = roles_[Rank(r)];
    if (view_.stage_epoch(Rank(r)) == view()) member.finished = false;
    rules_.forgive(member);
  }
  actions_.push_back(OpenView{std::move(plan)});
}

// False: the job has ended instead.
bool ControllerCore::may_send(const Plan& plan) {
  if (!plan.restart_all) return true;
  const std::string reasons = absl::StrJoin(plan.reasons, "; ");
  if (progress_.newest() > Commit(-1) && !options_.restart_all_allowed) {
    end({.reason = absl::StrCat("cannot go on exactly: ", reasons)});
    return false;
  }
  if (!may_go_on(rules_.on_restart_of_all(now_, reasons, progress_.furthest()))) return false;
  progress_.on_restart(view());
  return true;
}

void ControllerCore::release_if_finished() {
  if (!roles_.have_all_finished()) return;
  roles_.release_all();
  for (int32_t r = 0; r < topology_.world_size(); ++r)
    actions_.push_back(SendOrder{Rank(r), roles_[Rank(r)].since, ReleaseOrder{}});
  journal_.on_resumed(now_);
}

// After the release nothing can be lost any more: everything is on disk.
void ControllerCore::end_if_all_gone() {
  if (roles_.are_all_gone()) end({.ok = true, .reason = "finished", .is_drained = is_drained_});
}

void ControllerCore::end(EndJob how) {
  has_ended_ = true;
  moving_.on_end();
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    const RoleState& left = roles_[Rank(r)];
    if (left.phase() != Phase::kNone)
      actions_.push_back(KillWorker{left.node, Rank(r), left.since, "the job ends"});
  }
  actions_.emplace_back(std::move(how));
}

}  // namespace evermoe
