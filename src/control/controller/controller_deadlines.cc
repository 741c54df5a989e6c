// What a controller does when time passes: deadlines, suspicions, and the pace of the job.

#include "control/controller/controller_core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace evermoe {

// Who waits for somebody that waits itself blames the wrong one.
std::optional<Rank> ControllerCore::accused_of(const Suspicion& suspicion) {
  std::optional<Rank> accused;
  for (const auto& [accuser, blamed] : suspicion.blames) {
    if (!blamed) continue;
    if (!suspicion.blames.contains(*blamed)) return blamed;
    if (!accused) accused = blamed;
  }
  return accused;
}

// The line to its node may be broken or slow: only what its agent says, and it does not, tells of a
// worker.
bool ControllerCore::is_silent(const RoleState& role_state) const {
  const auto agent = agents_heard_.find(role_state.node);
  return role_state.phase == RoleState::Phase::kJoined && agent != agents_heard_.end() &&
         agent->second >= role_state.heard + options_.silence_max;
}

void ControllerCore::check_deadlines() {
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    RoleState& late = role_state(Rank(r));
    const bool silent = is_silent(late);
    if (!silent && now_ < late.deadline) continue;
    const std::string why = silent ? absl::StrCat("hung: no sign of life for ",
                                                  absl::FormatDuration(options_.silence_max))
                            : late.phase == RoleState::Phase::kStarting ? "did not come up in time"
                                                                        : "did not report in time";
    actions_.push_back(KillWorker{late.node, Rank(r), late.since, why});
    lose(Rank(r), why);
    if (has_ended_) return;
  }
  if (is_open_ && suspicion_ && now_ >= suspicion_->due) {
    const Suspicion suspicion = *std::exchange(suspicion_, std::nullopt);
    const std::optional<Rank> rank = accused_of(suspicion);
    if (!rank) return open_next_view(suspicion.what);
    const RoleState& accused = role_state(*rank);
    actions_.push_back(KillWorker{accused.node, *rank, accused.since, suspicion.what});
    lose(*rank, absl::StrCat("accused: ", suspicion.what));
  }
  if (!has_ended_) watch_pace();
}

absl::Duration ControllerCore::pace_deadline() const {
  if (!is_open_ || has_ended_) return absl::InfiniteDuration();
  if (probe_due_) return *probe_due_;
  if (is_adopting_) return absl::InfiniteDuration();
  const absl::Duration limit = pace_.limit(options_.step_max);
  if (!without_state_.empty()) return moved_ + std::max(options_.load_max, limit);
  return moved_ + limit * (does_more_than_steps() ? options_.patience : 1);
}

// Before the first step nobody knows how long one takes.
bool ControllerCore::does_more_than_steps() const {
  const Step step = step_of(newest_);
  const auto is_due = [&](int64_t every) { return every > 0 && step.value % every == 0; };
  return pace_.median() == absl::ZeroDuration() || step >= options_.steps ||
         is_due(options_.evaluate_every_steps) || is_due(options_.checkpoint_every_steps);
}

void ControllerCore::watch_pace() {
  if (now_ < pace_deadline()) return;
  if (!probe_due_) {
    is_probing_ = true;
    return open_next_view(absl::StrCat("nothing has happened for ",
                                       absl::FormatDuration(now_ - moved_), "; a step takes ",
                                       absl::FormatDuration(pace_.median())));
  }
  probe_due_.reset();
  is_probing_ = false;
  const std::vector<Rank> still = who_stands_still();
  if (still.empty()) {
    restart_reason_ = "the job stands still though all its workers move";
    return open_next_view(restart_reason_);
  }
  for (const Rank rank : still) {
    const std::string why = "hung: its stage does not move";
    actions_.push_back(KillWorker{role_state(rank).node, rank, role_state(rank).since, why});
    lose(rank, why, /*is_same_loss=*/rank != still.front());
    if (has_ended_) return;
  }
}

// In a stage that moves somebody waits for another stage, and enters the view at once. Inside the
// stage of one that hangs all wait for it and cannot be told from it.
std::vector<Rank> ControllerCore::who_stands_still() const {
  std::vector<Rank> stages, ranks;
  const auto moves = [&](Rank rank) {
    const RoleState& role_state = role_states_[static_cast<size_t>(rank.value)];
    return role_state.finished || role_state.entered == view_;
  };
  for (int stage = 0; stage < topology_.stages(); ++stage) {
    const std::vector<Rank> group = topology_.stage_group(stage);
    if (std::none_of(group.begin(), group.end(), moves))
      stages.insert(stages.end(), group.begin(), group.end());
    std::copy_if(group.begin(), group.end(), std::back_inserter(ranks),
                 [&](Rank rank) { return !moves(rank); });
  }
  return stages.empty() ? ranks : stages;
}

}  // namespace evermoe
