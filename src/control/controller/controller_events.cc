// What a controller makes of what it hears: of agents, of processes, and from members.

#include <utility>

#include "absl/strings/str_cat.h"
#include "control/controller/controller_core.h"
#include "control/controller/status/fitness_news.h"

namespace evermoe {

using Phase = RoleState::Phase;

namespace {

constexpr char kOfOtherRun[] = "it is of a run that was given up";

}  // namespace

// ---- agents and processes

void ControllerCore::handle(const AgentAlive& event) {
  silence_.note(now_, event.node, event.late);
  roles_.note_starved(event.node, event.starved, watch_.period());
  // After a silence of the line its workers have their time anew: what they said meanwhile may
  // still come.
  if (nodes_.is_in_doubt(event.node, now_)) {
    for (int32_t r = 0; r < topology_.world_size(); ++r) {
      RoleState& role = roles_[Rank(r)];
      if (role.node != event.node) continue;
      role.hear(now_);
      if (role.phase() == Phase::kJoined && role.deadline() < absl::InfiniteDuration())
        roles_.ask(Rank(r), now_ + options_.report_max);
    }
  }
  nodes_.hear(event.node, now_);
}

void ControllerCore::handle(const AgentJoined& event) {
  if (roles_.workers_on(event.node) == 0) newest_node_came_ = now_;
  nodes_.join(event.node, now_);
  standbys_.forget(event.node);
  check(event.node, event.complaints);
  arithmetic_.on_node(event);
  leave_out_unequal_nodes();
}

void ControllerCore::handle(const AgentLost& event) {
  nodes_.lose(event.node);
  term_.on_loss();
  links_.forget(event.node);
  standbys_.forget(event.node);
  moved_from_.erase(event.node);
  if (roles_.workers_on(event.node) > 0)
    membership_.on_news(absl::StrCat("node ", event.node.value, " is lost"));
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    const RoleState& role = roles_[Rank(r)];
    if (role.phase() != Phase::kNone && role.node == event.node) {
      forget_complaints(Rank(r));
      lose(Rank(r), absl::StrCat("node ", event.node.value, " is lost: ", event.why));
    }
  }
}

void ControllerCore::handle(const StandbysKept& event) {
  if (!nodes_.is_there(event.node)) return;
  if (const std::string news = standbys_.on_kept(event); !news.empty()) tell(news);
  if (event.failure.empty()) return;
  moving_.on_standby_failure(event.node, event.failure);
  waking_.on_standby_failure(event.node);
}

void ControllerCore::handle(const StandbyPromoted& event) {
  const RoleState& role = roles_[event.rank];
  if (role.phase() == Phase::kNone || role.since != event.since) return;
  if (!journal_.on_standby(event.rank)) return;
  tell_in_incident(absl::StrCat("worker ", name_of(event.rank), ": the standby of node ",
                                event.node.value, " takes its role"));
}

void ControllerCore::handle(const NodeChecked& event) {
  if (nodes_.is_there(event.node)) check(event.node, event.complaints);
}

void ControllerCore::check(Node node, const std::vector<std::string>& complaints) {
  const std::string news = fitness_news(node, nodes_.complaints(node), complaints);
  nodes_.check(node, complaints);
  if (!news.empty()) tell(news);
}

void ControllerCore::handle(const NodeLeaving& event) {
  if (!nodes_.is_there(event.node) || nodes_.is_leaving(event.node)) return;
  nodes_.leave(event.node);
  membership_.on_news(absl::StrCat("node ", event.node.value, " leaves"));
  tell(absl::StrCat("node ", event.node.value, " leaves"));
}

// Its line was broken, and what was said meanwhile, both ways, may be lost. If it is not where the
// others are, all meet in the next view.
void ControllerCore::take_back(const MemberJoined& event) {
  RoleState& role = roles_[event.rank];
  role.hear(now_);
  progress_.on_joined(event.newest);
  if (roles_.is_released()) return release(event);
  if (!beginning_.is_over()) return;
  role.finished = role.finished || (is_open() && event.has_finished);
  note_finish(event);
  const bool is_where_all_are = is_open() && event.is_open && event.newest_view == view();
  if (is_where_all_are || (!is_open() && role.report)) return;
  // A switch that fails brings thousands back at once: not a view for each of them.
  if (!is_open() && event.newest_view < view()) return stop(event);
  open_next_view(absl::StrCat("role ", name_of(event.rank), " is back on a new line"));
}

void ControllerCore::release(const MemberJoined& event) {
  actions_.push_back(SendOrder{event.rank, event.since, ReleaseOrder{}});
}

void ControllerCore::handle(const MemberJoined& event) {
  if (roles_.is_present(event.rank, event.since)) return take_back(event);
  const bool is_stranger = beginning_.is_over() && event.since != roles_[event.rank].since;
  if (is_stranger && view_.is_of_other_run({event.run, step_of(event.newest), event.lanes}))
    return refuse(event);
  if (!roles_.may_join(event) || !computes_alike(event)) return;
  const bool was_open = is_open();
  const View before = view();
  roles_.join(event, now_);
  progress_.on_joined(event.newest);
  note_finish(event);
  // It was lost with its line, after the release, of which it may not have heard.
  if (roles_.is_released()) return release(event);
  view_.on_joined(event);
  if (!beginning_.is_over()) {
    call_off_former_move(event);
    return view_.adopt(event);
  }
  // It may know of a view that a former controller had begun when all others were adopted in the
  // one before: nobody else has been asked for that one.
  if (was_open || view() != before)
    return open_next_view(absl::StrCat("role ", name_of(event.rank), " has joined"));
  stop(event);
}

// Another controller has started it. Whoever plays the role goes, too: it is heard no longer, for
// this one is newer.
void ControllerCore::refuse(const MemberJoined& event) {
  actions_.push_back(KillWorker{event.node, event.rank, event.since, kOfOtherRun});
  if (roles_[event.rank].phase() == Phase::kNone) return;
  kill_and_lose(event.rank, "a newer process of its role has come",
                "a process of a run that was given up has come in its place");
}

// Two hosts may have had the job for a while, and each has begun a run.
bool ControllerCore::lose_other_runs() {
  bool has_lost = false;
  for (Rank rank(0); rank.value < roles_.size(); ++rank.value) {
    const RoleState& role = roles_[rank];
    if (role.phase() != Phase::kJoined ||
        !view_.is_of_other_run({role.run, step_of(role.newest), role.lanes}))
      continue;
    tell(absl::StrCat("worker ", name_of(rank), " ends: ", kOfOtherRun));
    actions_.push_back(KillWorker{role.node, rank, role.since, kOfOtherRun});
    roles_.lose(rank);
    has_lost = true;
  }
  return has_lost;
}

// For the view that is being opened, of which it has not heard.
void ControllerCore::stop(const MemberJoined& event) {
  actions_.push_back(SendOrder{event.rank, event.since, StopOrder{view(), journal_.incident()}});
  roles_.ask(event.rank, now_ + options_.report_max);
}

// The controller whom it told may be gone, or the line on which it did. Its newest commit is of a
// closing then, which counts as the step after its last one.
void ControllerCore::note_finish(const MemberJoined& event) {
  if (event.has_finished) is_drained_ = step_of(event.newest) <= options_.steps;
}

// ---- who computes other bits

// False: it may not join; the job goes on without its node, or has ended.
bool ControllerCore::computes_alike(const MemberJoined& event) {
  using Kind = ArithmeticDecision::Kind;
  const ArithmeticDecision decision =
      arithmetic_.decide(event, nodes_, progress_.newest(), options_.nodes);
  leave_out_unequal_nodes();
  if (decision.kind == Kind::kJoin) return true;
  if (decision.kind == Kind::kEnd) {
    end({.bad_input = true,
         .reason = absl::StrCat("worker ", name_of(event.rank), " on node ", event.node.value, " ",
                                decision.difference)});
    return false;
  }
  if (nodes_.is_up(event.node)) tell(absl::StrCat("node ", event.node.value, " is left out"));
  nodes_.leave_out(event.node);
  kill_and_lose(event.rank, "it is left out", decision.difference);
  return false;
}

// They have said so before they play a role.
void ControllerCore::leave_out_unequal_nodes() {
  for (const auto& [node, difference] : arithmetic_.take_unequal_nodes()) {
    nodes_.leave_out(node);
    tell(absl::StrCat("node ", node.value, " is left out: it ", difference));
  }
}

void ControllerCore::handle(const WorkerEnded& event) {
  const RoleState& ended = roles_[event.rank];
  if (ended.phase() == Phase::kNone || ended.since != event.since) return;
  if (event.bad_input || event.is_hopeless)
    return end(
        {.bad_input = event.bad_input, .reason = event.how, .is_hopeless = event.is_hopeless});
  if (roles_.is_released() && event.is_clean) {
    roles_.end(event.rank);
    return end_if_all_gone();
  }
  forget_complaints(event.rank);
  const Node node = ended.node;
  lose(event.rank, event.how);
  if (event.is_doubted) doubt(node, event.how);
}

void ControllerCore::doubt(Node node, const std::string& why) {
  if (nodes_.is_doubted(node)) return;
  nodes_.doubt(node, why);
  tell_in_incident(absl::StrCat("node ", node.value, " is quarantined: ", why));
}

// ---- losses

void ControllerCore::kill_and_lose(Rank rank, const std::string& why, const std::string& how) {
  actions_.push_back(KillWorker{roles_[rank].node, rank, roles_[rank].since, why});
  lose(rank, how);
}

void ControllerCore::lose(Rank rank, const std::string& how) {
  const RoleState& lost = roles_[rank];
  if (lost.phase() == Phase::kNone) return;
  roles_.lose(rank);
  term_.on_loss();
  if (roles_.is_released()) return end_if_all_gone();
  moving_.on_loss(rank);
  // Why the job stood still is known now; the next view has a recovery to do, which takes longer
  // than a probe.
  watch_.end_probe();
  note_loss(rank, how);
  const bool with_node = !nodes_.is_up(lost.node) && !nodes_.is_last_resort(lost.node);
  if (!may_go_on(rules_.on_loss(now_, {rank, how, with_node}, lost, progress_.furthest()))) return;
  if (is_open()) open_next_view(absl::StrCat("role ", name_of(rank), " is lost"));
}

// False: the job has ended instead.
bool ControllerCore::may_go_on(LossDecision decision) {
  for (const std::string& news : decision.news) tell_in_incident(news);
  if (decision.end) end(*std::move(decision.end));
  return !has_ended_;
}

void ControllerCore::note_loss(Rank rank, const std::string& how) {
  journal_.on_loss(now_, progress_.newest(), rank, how);
  tell_in_incident(absl::StrCat("worker ", name_of(rank), " is lost: ", how));
}

// ---- members

void ControllerCore::handle(const MemberSaid& event) {
  if (!roles_.is_present(event.rank, event.since)) return;
  roles_[event.rank].hear(now_);
  std::visit([this](const auto& message) { hear(message); }, event.message);
}

void ControllerCore::handle(const MemberAlive& event) {
  if (!roles_.is_present(event.rank, event.since)) return;
  roles_[event.rank].hear(now_);
  roles_[event.rank].entered = event.entered;
  roles_[event.rank].waits = event.waits;
  stragglers_.note(event.rank, event.since, event.step_times);
  note_links(event);
}

void ControllerCore::hear(const Report& report) {
  if (is_open() || report.view != view()) return;
  roles_.note_report(report);
}

void ControllerCore::hear(const Trouble& trouble) {
  if (!is_open() || trouble.view != view()) return;
  if (trouble.inside_stage && trouble.stage_epoch != view_.stage_epoch(trouble.rank))
    return;  // the present view repairs it
  beginning_.on_trouble();
  tell_in_incident(absl::StrCat("worker ", name_of(trouble.rank), " reports: ", trouble.what));
  if (trouble.copies_unusable) {
    const std::string why = absl::StrCat("role ", name_of(trouble.rank), ": ", trouble.what);
    view_.leave_copies_next(why);
    return open_next_view(why);
  }
  if (!suspicion_) suspicion_.emplace(now_ + options_.grace, trouble.what);
  suspicion_->complain(trouble.rank, trouble.accused);
  note_complaint(trouble);
}

void ControllerCore::note_complaint(const Trouble& trouble) {
  // Of a role that nobody has registered yet it is not known where it is.
  if (!trouble.accused || roles_[*trouble.accused].since == View(0)) return;
  const auto process = [this](Rank rank) {
    return NodeTroubles::Process{rank, roles_[rank].since, roles_[rank].node};
  };
  troubles_.complain(now_, process(trouble.rank), process(*trouble.accused));
  if (suspicion_->has_waited() && node_at_fault()) suspicion_->stop_waiting(now_);
}

void ControllerCore::hear(const Finished& finished) {
  roles_[finished.rank].finished = true;
  is_drained_ = finished.step < options_.steps;
}

// A former controller may have heard of the doubt.
void ControllerCore::hear(const Examined& examined) {
  const Node node(examined.node);
  if (!examined.is_reproduced) {
    doubt(node, examined.what);
    return tell(absl::StrCat("node ", node.value, " stays quarantined: ", examined.what));
  }
  nodes_.trust(node);
  tell(absl::StrCat("node ", node.value, " is not quarantined: ", examined.what));
}

void ControllerCore::hear(const Milestone& milestone) {
  watch_.on_milestone(now_);
  if (milestone.kind == Milestone::Kind::kRestored && milestone.view == view())
    moving_.on_restored(now_, milestone.rank);
  if (const auto line = journal_.on_milestone(now_, milestone)) tell_in_view(*line);
}

void ControllerCore::hear(const Progress& progress) {
  if (progress_.is_old(progress)) return;
  const bool is_new = progress.newest > progress_.furthest();
  if (progress_.on_commit(progress.newest)) rules_.on_progress();
  if (!is_open() || progress.view != view()) return;
  journal_.on_commit();
  if (const std::string news = moving_.on_commit(now_, roles_); !news.empty()) tell(news);
  tell_lanes(membership_.on_commit(step_of(progress.newest)));
  troubles_.clear();
  beginning_.on_commit(now_);
  if (progress.newest == verdict_commit(step_of(progress.newest))) {
    copies_.on_step(step_of(progress.newest), progress.complete_window);
    watch_.on_commit(now_);
  } else {
    // A batch of an evaluation, which may have thousands of them, is movement but no step.
    watch_.on_milestone(now_);
    watch_.end_probe();
  }
  // After a restart of all the job has to come as far as it was.
  if (is_new) journal_.on_resumed(now_);
}

}  // namespace evermoe
