// What a controller hears: of agents, of processes, and from members.

#include "control/controller/controller_core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "config/identity.h"

namespace evermoe {

void ControllerCore::handle(const AgentJoined& event) {
  agents_[event.node] = true;
  agents_heard_[event.node] = now_;
}

void ControllerCore::handle(const AgentAlive& event) {
  // After a silence of the line its workers have their time anew: what they said meanwhile may
  // still come.
  if (is_in_doubt(event.node)) {
    for (RoleState& role_state : role_states_) {
      if (role_state.node == event.node) role_state.heard = now_;
    }
  }
  agents_heard_[event.node] = now_;
}

void ControllerCore::handle(const AgentLost& event) {
  agents_[event.node] = false;
  bool is_same_loss = false;
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    const RoleState& role_state = role_states_[static_cast<size_t>(r)];
    if (role_state.phase != RoleState::Phase::kNone && role_state.node == event.node) {
      lose(Rank(r), absl::StrCat("node ", event.node.value, " is lost: ", event.why),
           std::exchange(is_same_loss, true));
    }
  }
}

void ControllerCore::handle(const MemberJoined& event) {
  RoleState& joined = role_state(event.rank);
  if (joined.phase == RoleState::Phase::kJoined && joined.since == event.since) return;
  if (joined.phase == RoleState::Phase::kStarting && joined.since != event.since)
    return;  // an old one, about to end
  if (!computes_alike(event)) return;
  joined.phase = RoleState::Phase::kJoined;
  joined.node = event.node;
  joined.since = event.since;
  joined.address = event.address;
  joined.heard = now_;
  joined.deadline = absl::InfiniteDuration();
  joined.finished = event.has_finished;
  joined.report.reset();
  newest_ = std::max(newest_, event.newest);
  furthest_ = std::max(furthest_, newest_);
  View& epoch = stage_epochs_[static_cast<size_t>(topology_.role_of(event.rank).stage)];
  epoch = std::max(epoch, event.stage_epoch);
  if (event.newest_view > view_ || (event.newest_view == view_ && !event.is_open)) {
    is_open_ = false;  // an unfinished view of a former controller: the next one settles it
    view_ = std::max(view_, event.newest_view);
  }
  if (is_adopting_) {
    // All in one open view: nothing has happened but the change of controllers.
    if (event.is_open && event.newest_view == view_) is_open_ = true;
    return;
  }
  if (is_open_) return open_next_view(absl::StrCat("role ", name_of(event.rank), " has joined"));
  actions_.push_back(SendOrder{event.rank, event.since, StopOrder{view_, number_of_recovery()}});
  joined.deadline = now_ + options_.report_max;
}

// Machines that differ give bits that differ, often in a few gradients only.
bool ControllerCore::computes_alike(const MemberJoined& event) {
  if (!first_joined_) first_joined_ = event;
  if (event.arithmetic == first_joined_->arithmetic) return true;
  end(false,
      absl::StrCat("worker ", name_of(event.rank), " on node ", event.node.value,
                   " would compute other bits than worker ", name_of(first_joined_->rank),
                   " on node ", first_joined_->node.value, ": ",
                   identity_difference(first_joined_->arithmetic, event.arithmetic)),
      /*bad_input=*/true);
  return false;
}

void ControllerCore::handle(const WorkerEnded& event) {
  RoleState& ended = role_state(event.rank);
  if (ended.phase == RoleState::Phase::kNone || ended.since != event.since) return;
  if (event.bad_input || event.is_hopeless) return end(false, event.how, event.bad_input);
  if (ended.released && event.is_clean) {
    ended.phase = RoleState::Phase::kNone;
    return end_if_all_gone();
  }
  lose(event.rank, event.how);
}

void ControllerCore::lose(Rank rank, const std::string& how, bool is_same_loss) {
  RoleState& lost = role_state(rank);
  if (lost.phase == RoleState::Phase::kNone) return;
  lost.phase = RoleState::Phase::kNone;
  lost.report.reset();
  lost.deadline = absl::InfiniteDuration();
  lost.finished = false;
  if (lost.released) return end_if_all_gone();
  note_loss(rank, how);
  if (!is_same_loss && ++losses_ > options_.losses_max) {
    return end(false, absl::StrCat(losses_, " losses without any progress; the last: ",
                                   name_of(rank), ": ", how));
  }
  // Who was lost with others at once, or because of them, is not counted again.
  if (!options_.is_protected && lost.failures_seen == failures_counted_) {
    count_failure(absl::StrCat("worker ", name_of(rank), ": ", how));
    if (has_ended_) return;
  }
  if (is_open_) open_next_view(absl::StrCat("role ", name_of(rank), " is lost"));
}

// Of an unprotected job: all will start again.
void ControllerCore::count_failure(const std::string& how) {
  ++failures_counted_;
  const int restarts = failures_in_row_++;
  if (restarts >= options_.restarts_max) {
    return end(false, absl::StrCat("given up after ", restarts,
                                   " restarts in a row without progress beyond step ",
                                   step_of(std::max(furthest_, Commit(0))).value,
                                   " (run.restarts_max); the last failure: ", how));
  }
  const absl::Duration delay =
      std::min(options_.backoff * (int64_t{1} << std::min(restarts, 30)), options_.backoff_max);
  start_at_ = now_ + delay;
  actions_.push_back(
      JobEvent{absl::StrCat("restart ", failures_in_row_, " of at most ", options_.restarts_max,
                            " in a row without progress, from the newest durable checkpoint, in ",
                            absl::FormatDuration(delay))});
}

// After the release nothing can be lost any more: everything is on disk.
void ControllerCore::end_if_all_gone() {
  const bool all = std::all_of(
      role_states_.begin(), role_states_.end(),
      [](const RoleState& role_state) { return role_state.phase == RoleState::Phase::kNone; });
  if (all) end(true, "finished");
}

void ControllerCore::note_loss(Rank rank, const std::string& how) {
  if (present_recovery() == nullptr) {
    recoveries_.emplace_back();
    recoveries_.back().noticed = now_;
    recoveries_.back().step = step_of(std::max(newest_, Commit(0)));
  }
  RecoveryRecord& record = recoveries_.back();
  record.roles.push_back(name_of(rank));
  record.causes.push_back(absl::StrCat(name_of(rank), ": ", how));
  actions_.push_back(JobEvent{absl::StrCat("worker ", name_of(rank), " is lost: ", how)});
}

void ControllerCore::handle(const MemberSaid& event) {
  if (!is_present(event.rank, event.since)) return;
  role_state(event.rank).heard = now_;
  std::visit([this](const auto& message) { hear(message); }, event.message);
}

void ControllerCore::handle(const MemberAlive& event) {
  if (!is_present(event.rank, event.since)) return;
  role_state(event.rank).heard = now_;
  role_state(event.rank).entered = event.entered;
}

// ---- what members say

void ControllerCore::hear(const Report& report) {
  if (is_open_ || report.view != view_) return;
  role_state(report.rank).report = report;
  role_state(report.rank).deadline = absl::InfiniteDuration();
}

void ControllerCore::hear(const Trouble& trouble) {
  const auto stage = static_cast<size_t>(topology_.role_of(trouble.rank).stage);
  if (!is_open_ || trouble.view != view_) return;
  if (trouble.inside_stage && trouble.stage_epoch != stage_epochs_[stage])
    return;  // the present view repairs it
  actions_.push_back(
      JobEvent{absl::StrCat("worker ", name_of(trouble.rank), " reports: ", trouble.what)});
  if (trouble.copies_unusable) {
    restart_reason_ = absl::StrCat("role ", name_of(trouble.rank), ": ", trouble.what);
    return open_next_view(restart_reason_);
  }
  // Its death, if it is one, is about to be reported by somebody who knows.
  if (!suspicion_) suspicion_ = Suspicion{now_ + options_.grace, trouble.what, {}};
  suspicion_->blames.insert_or_assign(trouble.rank, trouble.accused);
}

void ControllerCore::hear(const Progress& progress) {
  // A commit from before a restart of all may be heard of after it.
  if (progress.newest <= newest_ || progress.view < restarted_) return;
  const bool is_new = progress.newest > furthest_;
  note_progress(progress.newest);
  if (!is_open_ || progress.view != view_) return;
  if (was_commit_) pace_.add(now_ - moved_);
  moved_ = now_;
  was_commit_ = true;
  is_probing_ = false;
  probe_due_.reset();
  // After a restart of all the job has to come as far as it was.
  if (RecoveryRecord* const record = present_recovery(); record != nullptr && is_new)
    record->resumed = now_;
}

void ControllerCore::note_progress(Commit newest) {
  const bool is_first = newest_ < Commit(0);
  newest_ = newest;
  if (newest > furthest_) {
    furthest_ = newest;
    first_ = Commit(-1);
    losses_ = failures_in_row_ = 0;
  } else if (is_first) {
    if (first_ >= Commit(0) && newest > first_) losses_ = failures_in_row_ = 0;
    first_ = newest;
  }
}

void ControllerCore::hear(const Finished& finished) { role_state(finished.rank).finished = true; }

}  // namespace evermoe
