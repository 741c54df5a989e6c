#include "control/controller/role_table.h"

#include <algorithm>

namespace evermoe {

using Phase = RoleState::Phase;

RoleTable::RoleTable(int roles) : states_(static_cast<size_t>(roles)) {
  for (int32_t r = 0; r < roles; ++r) without_process_.insert(without_process_.end(), Rank(r));
}

void RoleTable::set_phase(Rank rank, Phase phase) {
  (*this)[rank].phase_ = phase;
  if (phase == Phase::kNone)
    without_process_.insert(rank);
  else
    without_process_.erase(rank);
}

void RoleTable::set_deadline(Rank rank, absl::Duration deadline) {
  absl::Duration& mine = (*this)[rank].deadline_;
  if (const auto old = deadlines_.find(mine); old != deadlines_.end() && --old->second == 0)
    deadlines_.erase(old);
  mine = deadline;
  if (deadline < absl::InfiniteDuration()) ++deadlines_[deadline];
}

void RoleTable::ask(Rank rank, absl::Duration until) {
  set_deadline(rank, until);
  (*this)[rank].on_deadline.begin((*this)[rank].starvation.total());
}

void RoleTable::note_report(const Report& report) {
  (*this)[report.rank].report = report;
  set_deadline(report.rank, absl::InfiniteDuration());
}

void RoleTable::start(Rank rank, Node node, View since, absl::Duration deadline) {
  RoleState& state = (*this)[rank];
  set_phase(rank, Phase::kStarting);
  state.node = node;
  state.since = since;
  state.starvation.on_start();
  ask(rank, deadline);
}

bool RoleTable::may_join(const MemberJoined& event) const {
  const RoleState& state = (*this)[event.rank];
  if (state.phase() == Phase::kJoined) return state.since != event.since;
  return state.phase() == Phase::kNone || state.since == event.since;
}

void RoleTable::join(const MemberJoined& event, absl::Duration now) {
  RoleState& state = (*this)[event.rank];
  if (state.since != event.since) state.starvation.on_unknown();
  set_phase(event.rank, Phase::kJoined);
  state.node = event.node;
  state.since = event.since;
  state.run = event.run;
  state.newest = event.newest;
  state.lanes = event.lanes;
  state.address = event.address;
  state.hear(now);
  set_deadline(event.rank, absl::InfiniteDuration());
  state.finished = event.has_finished;
  state.report.reset();
}

void RoleTable::lose(Rank rank) {
  RoleState& state = (*this)[rank];
  set_phase(rank, Phase::kNone);
  state.report.reset();
  set_deadline(rank, absl::InfiniteDuration());
  state.finished = false;
  state.waits = false;
}

// It may have been asked for a report before it heard of its release.
void RoleTable::end(Rank rank) {
  set_phase(rank, Phase::kNone);
  set_deadline(rank, absl::InfiniteDuration());
}

void RoleTable::note_starved(Node node, const std::vector<StarvedWorker>& workers, int64_t period) {
  for (const StarvedWorker& worker : workers) {
    if (worker.rank.value >= size()) continue;
    RoleState& state = (*this)[worker.rank];
    if (state.phase() != Phase::kNone && state.since == worker.since && state.node == node)
      state.starvation.on_report(worker.starved, period);
  }
}

bool RoleTable::is_present(Rank rank, View since) const {
  const RoleState& state = (*this)[rank];
  return state.phase() == Phase::kJoined && state.since == since;
}

template <typename Is>
bool RoleTable::is_true_of_all(Witness& witness, const Is& is) const {
  for (size_t n = 0; n < states_.size(); ++n) {
    const size_t role = (witness + n) % states_.size();
    if (is(states_[role])) continue;
    witness = role;
    return false;
  }
  return true;
}

bool RoleTable::are_all_joined() const {
  return is_true_of_all(unjoined_,
                        [](const RoleState& state) { return state.phase() == Phase::kJoined; });
}

bool RoleTable::have_all_reported() const {
  return is_true_of_all(unreported_, [](const RoleState& state) {
    return state.phase() == Phase::kJoined && state.report.has_value();
  });
}

bool RoleTable::have_all_finished() const {
  return !is_released_ && is_true_of_all(unfinished_, [](const RoleState& state) {
    return state.phase() == Phase::kJoined && state.finished;
  });
}

bool RoleTable::are_all_gone() const { return std::ssize(without_process_) == size(); }

int RoleTable::workers_on(Node node) const {
  return static_cast<int>(std::count_if(
      states_.begin(), states_.end(),
      [&](const RoleState& state) { return state.phase() != Phase::kNone && state.node == node; }));
}

std::vector<Rank> RoleTable::played_on(Node node) const {
  std::vector<Rank> ranks;
  for (int32_t r = 0; r < size(); ++r) {
    const RoleState& state = (*this)[Rank(r)];
    if (state.phase() != Phase::kNone && state.node == node) ranks.push_back(Rank(r));
  }
  return ranks;
}

absl::Duration RoleTable::next_deadline() const {
  return deadlines_.empty() ? absl::InfiniteDuration() : deadlines_.begin()->first;
}

}  // namespace evermoe
