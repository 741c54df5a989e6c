#include "control/controller/controller_core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace evermoe {

using Phase = RoleState::Phase;

namespace {

std::vector<Rank> all_ranks(const Topology& topology) {
  std::vector<Rank> ranks;
  for (int32_t r = 0; r < topology.world_size(); ++r) ranks.push_back(Rank(r));
  return ranks;
}

}  // namespace

ControllerCore::ControllerCore(Topology topology, ControllerOptions options, absl::Duration now)
    : topology_(std::move(topology)),
      options_(options),
      now_(now),
      roles_(topology_.world_size()),
      nodes_(options.silence_max / 2),
      view_(topology_, options_),
      limits_(options_),
      restarts_(topology_.world_size(), options_),
      watch_(options_),
      lateness_(options_.own_standstill),
      copies_(options_.strategy),
      journal_(topology_, options_.incidents_after),
      adoption_ends_(now + options.adoption),
      find_ends_(now + std::max(options.adoption, options.find_max)),
      begin_ends_(now + std::max(options.adoption, options.begin_max)),
      adoption_moved_(now) {}

std::vector<ControllerAction> ControllerCore::on(absl::Duration now, const ControllerEvent& event) {
  now_ = std::max(now_, now);
  actions_.clear();
  if (has_ended_) return {};
  const bool is_routine = this->is_routine(event);
  std::visit([this](const auto& e) { handle(e); }, event);
  if (is_routine) return std::exchange(actions_, {});
  if (!has_ended_) check_deadlines();
  if (!has_ended_) reconsider();
  return std::exchange(actions_, {});
}

// Signs of life are most of what a controller hears. Nothing becomes due because of one, and to
// look at all roles for each of them would cost the square of their number.
bool ControllerCore::is_routine(const ControllerEvent& event) const {
  if (const auto* const said = std::get_if<MemberSaid>(&event))
    return std::holds_alternative<Progress>(said->message);
  if (const auto* const agent = std::get_if<AgentAlive>(&event))
    return !nodes_.is_in_doubt(agent->node, now_);
  // What becomes of nodes that leave is decided when all that leave together are known.
  return std::holds_alternative<MemberAlive>(event) || std::holds_alternative<NodeLeaving>(event);
}

absl::Duration ControllerCore::next_deadline() const {
  absl::Duration next = absl::InfiniteDuration();
  if (is_adopting_)
    next = fit_ends_ ? *fit_ends_ : network_ends_ ? *network_ends_ : adoption_deadline();
  next = std::min(next, roles_.next_deadline());
  if (is_open() && suspicion_) next = std::min(next, suspicion_->due());
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    const bool is_missing = roles_[Rank(r)].phase == Phase::kNone && !roles_[Rank(r)].released;
    if (is_missing && start_at(Rank(r)) > now_) next = std::min(next, start_at(Rank(r)));
  }
  return std::min(next, pace_deadline());
}

void ControllerCore::tell_in_view(const std::string& text) {
  tell_in_incident(absl::StrCat("view ", view().value, ": ", text));
}

// ---- time

void ControllerCore::check_deadlines() {
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    RoleState& late = roles_[Rank(r)];
    const bool silent = is_silent(late);
    if (!silent && now_ < late.deadline) continue;
    if (!silent && is_out_of_sight(late)) {
      late.deadline = now_ + options_.silence_max;
      continue;
    }
    if (!silent && !has_had_its_time(late)) continue;
    const std::string why = silent ? absl::StrCat("hung: no sign of life for ",
                                                  absl::FormatDuration(silence_limit(late)))
                            : late.phase == Phase::kStarting ? "did not come up in time"
                                                             : "did not report in time";
    kill_and_lose(Rank(r), why, why);
    if (has_ended_) return;
  }
  if (is_open() && suspicion_ && now_ >= suspicion_->due()) {
    follow_suspicion();
    if (!is_open()) return;
  }
  if (!has_ended_) watch_pace();
}

// The line to its node may be broken or slow: only what its agent says, and it does not, tells of a
// worker.
bool ControllerCore::is_silent(const RoleState& role) const {
  if (now_ < role.heard + options_.silence_max) return false;  // the rest is costly for all roles
  const auto agent = nodes_.heard(role.node);
  return role.phase == Phase::kJoined && agent && *agent >= role.heard + silence_limit(role);
}

absl::Duration ControllerCore::allowance(Node node, absl::Duration limit) const {
  const absl::Duration own = lateness_.allowance(now_, limit);
  const auto of_node = lateness_of_node_.find(node);
  if (of_node == lateness_of_node_.end()) return own;
  return std::max(own, of_node->second.allowance(now_, limit));
}

absl::Duration ControllerCore::silence_limit(const RoleState& role) const {
  const absl::Duration limit = options_.silence_max;
  const absl::Duration starved = role.starvation.total() - role.starved_when_heard;
  const absl::Duration more = allowance(role.node, limit) + starved;
  return limit + absl::Trunc(std::min(more, (kStallFactorMax - 1) * limit), absl::Milliseconds(1));
}

// To join or to report.
bool ControllerCore::has_had_its_time(RoleState& late) const {
  const absl::Duration limit =
      late.phase == Phase::kStarting ? options_.start_max : options_.report_max;
  const absl::Duration more = late.on_deadline.take(late.starvation.total(), limit);
  late.deadline += more;
  return more == absl::ZeroDuration();
}

// What it reports cannot be heard now: the verdict on its node comes first.
bool ControllerCore::is_out_of_sight(const RoleState& role) const {
  return role.phase == Phase::kJoined && nodes_.is_up(role.node) &&
         nodes_.is_in_doubt(role.node, now_);
}

// Nobody can be heard, so nothing is known of the job.
bool ControllerCore::is_deaf() const {
  const auto& roles = roles_.all();
  return std::all_of(roles.begin(), roles.end(),
                     [this](const RoleState& role) { return is_out_of_sight(role); });
}

void ControllerCore::follow_suspicion() {
  const Suspicion suspicion = *std::exchange(suspicion_, std::nullopt);
  const std::optional<Rank> accused = suspicion.accused();
  if (!accused) return open_next_view(suspicion.what());
  kill_and_lose(*accused, suspicion.what(), absl::StrCat("accused: ", suspicion.what()));
}

absl::Duration ControllerCore::pace_deadline() const {
  if (!is_open() || has_ended_ || is_adopting_) return absl::InfiniteDuration();
  return watch_.deadline(progress_.newest(), journal_.is_loading());
}

void ControllerCore::watch_pace() {
  if (now_ < pace_deadline()) return;
  if (is_deaf()) return watch_.on_milestone(now_);
  if (!watch_.is_probe()) {
    if (grant_what_was_starved(all_ranks(topology_))) return;
    watch_.probe();
    return open_next_view(
        absl::StrCat("nothing has happened for ", absl::FormatDuration(now_ - watch_.moved()),
                     "; a step takes ", absl::FormatDuration(watch_.median_step())));
  }
  const std::vector<Rank> still = who_stands_still(topology_, roles_, view());
  if (grant_what_was_starved(still)) return;
  watch_.end_probe();
  if (still.empty()) {
    const std::string why = "the job stands still though all its workers move";
    watch_.on_all_moved();
    // Going back in memory is cheap, and tried once at every place.
    const bool was_tried = std::exchange(went_back_at_, progress_.furthest()) == went_back_at_;
    was_tried ? view_.restart_next(why) : view_.go_back_next(why);
    return open_next_view(why);
  }
  for (const Rank rank : still) {
    const std::string why = "hung: its stage does not move";
    kill_and_lose(rank, why, why);
    if (has_ended_) return;
  }
}

// The slowest of them decides how long the job takes.
bool ControllerCore::grant_what_was_starved(const std::vector<Rank>& waited_for) {
  absl::Duration most;
  for (const Rank rank : waited_for)
    most = std::max(most, roles_[rank].starvation.since(watch_.period()));
  return watch_.grant(most, progress_.newest(), journal_.is_loading());
}

// ---- views

void ControllerCore::open_next_view(const std::string& why) {
  view_.open_next();
  suspicion_.reset();
  watch_.on_stop();
  tell_in_view(why);
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    RoleState& member = roles_[Rank(r)];
    member.report.reset();
    if (member.phase != Phase::kJoined) continue;
    member.ask(now_ + options_.report_max);
    actions_.push_back(SendOrder{Rank(r), member.since, StopOrder{view(), journal_.incident()}});
  }
}

void ControllerCore::reconsider() {
  if (is_adopting_ && !end_adoption()) return;
  let_go();
  if (has_ended_) return;
  start_missing();
  if (is_open()) return release_if_finished();
  if (roles_.have_all_reported()) send_plan();
}

// Who is absent may only be cut off from here: a view goes on as long as all its members live, and
// when one dies others miss it and say so. A view without commits for too long stands still for
// another reason.
absl::Duration ControllerCore::adoption_deadline() const {
  const int missing = options_.nodes + options_.spares - nodes_.known();
  if (!options_.takes_over && nodes_.known() < options_.nodes) return begin_ends_;
  const absl::Duration ends = options_.takes_over && missing > 1 ? find_ends_ : adoption_ends_;
  if (!is_open() || has_heard_trouble_ || missing < 1) return ends;
  return std::max(ends, adoption_moved_ + options_.step_max);
}

bool ControllerCore::end_adoption() {
  if (waits_for_nodes() || waits_for_fit_nodes()) return false;
  const bool complete = roles_.are_all_joined();
  const int fit = nodes_.known() - static_cast<int>(nodes_.unfit().size());
  const bool expects_nobody = !options_.takes_over && fit >= options_.nodes;
  if (!complete && !expects_nobody && now_ < adoption_deadline()) return false;
  if (waits_for_network()) return false;
  is_adopting_ = false;
  if (view() > View(0)) lose_the_absent();
  watch_.begin(now_);
  if (!(complete && is_open()))
    open_next_view(view() == View(0) ? "the job begins" : "a new controller takes over");
  return true;
}

void ControllerCore::start_missing() {
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    RoleState& missing = roles_[Rank(r)];
    if (missing.phase != Phase::kNone || missing.released) continue;
    if (missing.since != View(0) && now_ < start_at(Rank(r))) continue;
    const auto node = node_for(Rank(r), roles_, nodes_, restarts_, options_.nodes, now_);
    if (!node) continue;  // waits for an agent
    if (restarts_.avoids(Rank(r), missing.node) && *node != missing.node)
      tell_in_incident(absl::StrCat("worker ", name_of(Rank(r)), " moves to node ", node->value,
                                    ": it ", restarts_.reason(now_, Rank(r))));
    restarts_.on_start(now_, Rank(r), *node);
    roles_.start(Rank(r), *node, std::max(view(), View(1)), now_ + options_.start_max);
    missing.failures_seen = limits_.failures();
    missing.losses_seen = limits_.counted();
    actions_.push_back(StartWorker{*node, Rank(r), missing.since, journal_.incident()});
  }
}

// The end of its back-off.
absl::Duration ControllerCore::start_at(Rank rank) const {
  return std::max(limits_.start_at(), restarts_.start_at(rank));
}

void ControllerCore::send_plan() {
  const CopyHolders holders = this->holders();
  Plan plan = view_.plan(roles_, holders);
  note_unseen_losses();
  plan.incident = journal_.incident();
  if (!may_send(plan)) return;
  limits_.on_plan();
  journal_.on_plan(now_, plan);
  watch_.on_plan(now_);
  for (const std::string& reason : plan.reasons) tell_in_view(reason);
  if (std::exchange(holders_told_, holders.reason) != holders.reason) tell_in_view(holders.reason);
  copies_.on_plan(plan, roles_);
  view_.open(plan);
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    RoleState& member = roles_[Rank(r)];
    if (view_.stage_epoch(Rank(r)) == view()) member.finished = false;
    member.failures_seen = limits_.failures();
    member.losses_seen = limits_.counted();
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
  if (!options_.strategy.keeps_copies && limits_.is_unexplained()) count_failure(reasons);
  if (has_ended_) return false;
  progress_.on_restart(view());
  return true;
}

void ControllerCore::release_if_finished() {
  if (!roles_.have_all_finished()) return;
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    roles_[Rank(r)].released = true;
    actions_.push_back(SendOrder{Rank(r), roles_[Rank(r)].since, ReleaseOrder{}});
  }
  journal_.on_resumed(now_);
}

// After the release nothing can be lost any more: everything is on disk.
void ControllerCore::end_if_all_gone() {
  if (roles_.are_all_gone()) end({.ok = true, .reason = "finished", .is_drained = is_drained_});
}

void ControllerCore::end(EndJob how) {
  has_ended_ = true;
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    const RoleState& left = roles_[Rank(r)];
    if (left.phase != Phase::kNone)
      actions_.push_back(KillWorker{left.node, Rank(r), left.since, "the job ends"});
  }
  actions_.emplace_back(std::move(how));
}

}  // namespace evermoe
