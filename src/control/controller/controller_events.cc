// What a controller makes of what it hears: of agents, of processes, and from members.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "config/identity.h"
#include "control/controller/controller_core.h"

namespace evermoe {

using Phase = RoleState::Phase;

// ---- agents and processes

void ControllerCore::note_stalls(const AgentAlive& event) {
  lateness_of_node_.try_emplace(event.node, options_.own_standstill)
      .first->second.note(now_, event.late);
  for (const StarvedWorker& worker : event.starved) {
    if (worker.rank.value >= roles_.size()) continue;
    RoleState& role = roles_[worker.rank];
    if (role.phase != Phase::kNone && role.since == worker.since && role.node == event.node)
      role.starvation.on_report(worker.starved, watch_.period());
  }
}

void ControllerCore::handle(const AgentAlive& event) {
  note_stalls(event);
  // After a silence of the line its workers have their time anew: what they said meanwhile may
  // still come.
  if (nodes_.is_in_doubt(event.node, now_)) {
    for (int32_t r = 0; r < topology_.world_size(); ++r) {
      RoleState& role = roles_[Rank(r)];
      if (role.node != event.node) continue;
      role.hear(now_);
      if (role.phase == Phase::kJoined && role.deadline < absl::InfiniteDuration())
        role.ask(now_ + options_.report_max);
    }
  }
  nodes_.hear(event.node, now_);
}

void ControllerCore::handle(const AgentJoined& event) {
  nodes_.join(event.node, now_);
  check(event.node, event.complaints);
  if (!event.arithmetic.empty()) arithmetic_[event.node] = event.arithmetic;
  leave_out_unequal_nodes();
}

void ControllerCore::handle(const AgentLost& event) {
  nodes_.lose(event.node);
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    const RoleState& role = roles_[Rank(r)];
    if (role.phase != Phase::kNone && role.node == event.node) {
      lose(Rank(r), absl::StrCat("node ", event.node.value, " is lost: ", event.why));
    }
  }
}

// Its line was broken, and what was said meanwhile, both ways, may be lost. If it is not where the
// others are, all meet in the next view.
void ControllerCore::take_back(const MemberJoined& event) {
  RoleState& role = roles_[event.rank];
  role.hear(now_);
  progress_.on_joined(event.newest);
  if (role.released) {
    actions_.push_back(SendOrder{event.rank, event.since, ReleaseOrder{}});
    return;
  }
  if (is_adopting_) return;
  role.finished = role.finished || (is_open() && event.has_finished);
  note_finish(event);
  const bool is_where_all_are = is_open() && event.is_open && event.newest_view == view();
  if (is_where_all_are || (!is_open() && role.report)) return;
  // A switch that fails brings thousands back at once: not a view for each of them.
  if (!is_open() && event.newest_view < view()) return stop(event);
  open_next_view(absl::StrCat("role ", name_of(event.rank), " is back on a new line"));
}

void ControllerCore::handle(const MemberJoined& event) {
  if (roles_.is_present(event.rank, event.since)) return take_back(event);
  if (!roles_.may_join(event) || !computes_alike(event)) return;
  const bool was_open = is_open();
  const View before = view();
  roles_.join(event, now_);
  progress_.on_joined(event.newest);
  note_finish(event);
  view_.on_joined(event);
  if (is_adopting_) return view_.adopt(event);
  // It may know of a view that a former controller had begun when all others were adopted in the
  // one before: nobody else has been asked for that one.
  if (was_open || view() != before)
    return open_next_view(absl::StrCat("role ", name_of(event.rank), " has joined"));
  stop(event);
}

// For the view that is being opened, of which it has not heard.
void ControllerCore::stop(const MemberJoined& event) {
  actions_.push_back(SendOrder{event.rank, event.since, StopOrder{view(), journal_.incident()}});
  roles_[event.rank].ask(now_ + options_.report_max);
}

// The controller whom it told may be gone, or the line on which it did. Its newest commit is of a
// closing then, which counts as the step after its last one.
void ControllerCore::note_finish(const MemberJoined& event) {
  if (event.has_finished) is_drained_ = step_of(event.newest) <= options_.steps;
}

// ---- who computes other bits

std::string ControllerCore::difference_to(const std::string& arithmetic) const {
  return absl::StrCat("would compute other bits than worker ", name_of(first_joined_->rank),
                      " on node ", first_joined_->node.value, ": ",
                      identity_difference(first_joined_->arithmetic, arithmetic));
}

// Machines that differ give bits that differ, often in a few gradients only. The job goes on
// without such a machine where others can take its place: before the first step that is a spare.
bool ControllerCore::computes_alike(const MemberJoined& event) {
  if (!first_joined_) {
    first_joined_ = event;
    leave_out_unequal_nodes();
  }
  if (event.arithmetic == first_joined_->arithmetic) return true;
  const std::string difference = difference_to(event.arithmetic);
  const int needed = progress_.newest() > Commit(-1) ? 1 : options_.nodes;
  if (nodes_.up_besides(event.node) < needed) {
    end({.bad_input = true,
         .reason = absl::StrCat("worker ", name_of(event.rank), " on node ", event.node.value, " ",
                                difference)});
    return false;
  }
  if (nodes_.is_up(event.node)) tell(absl::StrCat("node ", event.node.value, " is left out"));
  nodes_.leave_out(event.node);
  kill_and_lose(event.rank, "it is left out", difference);
  return false;
}

// Nodes that say so before they play a role.
void ControllerCore::leave_out_unequal_nodes() {
  if (!first_joined_) return;
  for (const auto& [node, arithmetic] : std::exchange(arithmetic_, {})) {
    if (arithmetic == first_joined_->arithmetic) continue;
    nodes_.leave_out(node);
    tell(absl::StrCat("node ", node.value, " is left out: it ", difference_to(arithmetic)));
  }
}

void ControllerCore::handle(const WorkerEnded& event) {
  RoleState& ended = roles_[event.rank];
  if (ended.phase == Phase::kNone || ended.since != event.since) return;
  if (event.bad_input || event.is_hopeless)
    return end(
        {.bad_input = event.bad_input, .reason = event.how, .is_hopeless = event.is_hopeless});
  if (ended.released && event.is_clean) {
    ended.phase = Phase::kNone;
    return end_if_all_gone();
  }
  lose(event.rank, event.how);
}

// ---- losses

void ControllerCore::kill_and_lose(Rank rank, const std::string& why, const std::string& how) {
  actions_.push_back(KillWorker{roles_[rank].node, rank, roles_[rank].since, why});
  lose(rank, how);
}

void ControllerCore::lose(Rank rank, const std::string& how) {
  const RoleState& lost = roles_[rank];
  if (lost.phase == Phase::kNone) return;
  roles_.lose(rank);
  if (lost.released) return end_if_all_gone();
  // Why the job stood still is known now; the next view has a recovery to do, which takes longer
  // than a probe.
  watch_.end_probe();
  note_loss(rank, how);
  if (!may_start_again(rank, how)) return;
  // Machines that are lost together are often noticed one after the other: what was not started
  // again since the last loss was counted is part of that one.
  if (lost.losses_seen == limits_.counted() && limits_.count_loss()) {
    return end({.reason = absl::StrCat(limits_.losses(), " losses without any progress; the last: ",
                                       name_of(rank), ": ", how)});
  }
  // Who was lost with others at once, or because of them, is not counted again.
  if (!options_.strategy.keeps_copies && lost.failures_seen == limits_.failures()) {
    count_failure(absl::StrCat("worker ", name_of(rank), ": ", how));
    if (has_ended_) return;
  }
  if (is_open()) open_next_view(absl::StrCat("role ", name_of(rank), " is lost"));
}

// False: the job has ended instead.
bool ControllerCore::may_start_again(Rank rank, const std::string& how) {
  const bool with_node = !nodes_.is_up(roles_[rank].node);
  restarts_.on_loss(now_, rank, with_node);
  const int restarts = restarts_.losses(rank) - 1;
  if (options_.strategy.keeps_copies && restarts >= options_.restarts_max) {
    end({.reason = absl::StrCat("given up after ", restarts, " restarts in a row of worker ",
                                name_of(rank), " without progress beyond step ",
                                step_of(std::max(progress_.furthest(), Commit(0))).value,
                                " (run.restarts_max); the last failure: ", how),
         .is_hopeless = !with_node});
    return false;
  }
  if (const std::string reason = restarts_.reason(now_, rank); !reason.empty())
    tell_in_incident(absl::StrCat("worker ", name_of(rank), " ", reason));
  return true;
}

// Of an unprotected job: all will start again.
void ControllerCore::count_failure(const std::string& how) {
  const LossLimits::Restart restart = limits_.count_failure(now_);
  if (!restart.is_allowed) {
    return end({.reason = absl::StrCat("given up after ", restart.number - 1,
                                       " restarts in a row without progress beyond step ",
                                       step_of(std::max(progress_.furthest(), Commit(0))).value,
                                       " (run.restarts_max); the last failure: ", how),
                .is_hopeless = true});
  }
  tell_in_incident(
      absl::StrCat("restart ", restart.number, " of at most ", options_.restarts_max,
                   " in a row without progress, from the newest durable checkpoint, in ",
                   absl::FormatDuration(restart.delay)));
}

void ControllerCore::note_loss(Rank rank, const std::string& how) {
  journal_.on_loss(now_, progress_.newest(), rank, how);
  tell_in_incident(absl::StrCat("worker ", name_of(rank), " is lost: ", how));
}

// Roles that were lost while no controller looked.
void ControllerCore::lose_the_absent() {
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    if (roles_[Rank(r)].phase == Phase::kNone)
      note_loss(Rank(r), "gone when the new controller came");
  }
}

// Found out by the former controller, which did not live to tell: its replacements are what is left
// of them. In an incident this controller has noted those that it has replaced itself.
void ControllerCore::note_unseen_losses() {
  if (progress_.newest() < Commit(0)) return;
  const View own_since =
      journal_.incident() > 0 ? View(options_.views_after.value + 1) : View(UINT32_MAX);
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    const RoleState& role = roles_[Rank(r)];
    if (role.report->stage_epoch == View(0) && role.since < own_since &&
        unseen_losses_.insert(Rank(r)).second)
      note_loss(Rank(r), "replaced when the new controller came");
  }
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
}

void ControllerCore::hear(const Report& report) {
  if (is_open() || report.view != view()) return;
  roles_[report.rank].report = report;
  roles_[report.rank].deadline = absl::InfiniteDuration();
}

void ControllerCore::hear(const Trouble& trouble) {
  if (!is_open() || trouble.view != view()) return;
  if (trouble.inside_stage && trouble.stage_epoch != view_.stage_epoch(trouble.rank))
    return;  // the present view repairs it
  has_heard_trouble_ = true;
  tell_in_incident(absl::StrCat("worker ", name_of(trouble.rank), " reports: ", trouble.what));
  if (trouble.copies_unusable) {
    const std::string why = absl::StrCat("role ", name_of(trouble.rank), ": ", trouble.what);
    view_.restart_next(why);
    return open_next_view(why);
  }
  if (!suspicion_) suspicion_.emplace(now_ + options_.grace, trouble.what);
  suspicion_->complain(trouble.rank, trouble.accused);
}

void ControllerCore::hear(const Finished& finished) {
  roles_[finished.rank].finished = true;
  is_drained_ = finished.step < options_.steps;
}

void ControllerCore::hear(const Milestone& milestone) {
  watch_.on_milestone(now_);
  if (const auto line = journal_.on_milestone(now_, milestone)) tell_in_view(*line);
}

void ControllerCore::hear(const Progress& progress) {
  if (progress_.is_old(progress)) return;
  const bool is_new = progress.newest > progress_.furthest();
  if (progress_.on_commit(progress.newest)) {
    limits_.on_progress();
    restarts_.on_progress();
  }
  if (!is_open() || progress.view != view()) return;
  journal_.on_commit();
  adoption_moved_ = now_;
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
