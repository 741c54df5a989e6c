#include "control/controller/role_table.h"

#include <algorithm>

namespace evermoe {

using Phase = RoleState::Phase;

void RoleTable::start(Rank rank, Node node, View since, absl::Duration deadline) {
  RoleState& state = (*this)[rank];
  state.phase = Phase::kStarting;
  state.node = node;
  state.since = since;
  state.starvation.on_start();
  state.ask(deadline);
}

bool RoleTable::may_join(const MemberJoined& event) const {
  const RoleState& state = (*this)[event.rank];
  if (state.phase == Phase::kJoined) return state.since != event.since;
  return state.phase == Phase::kNone || state.since == event.since;
}

void RoleTable::join(const MemberJoined& event, absl::Duration now) {
  RoleState& state = (*this)[event.rank];
  if (state.since != event.since) state.starvation.on_unknown();
  state.phase = Phase::kJoined;
  state.node = event.node;
  state.since = event.since;
  state.address = event.address;
  state.hear(now);
  state.deadline = absl::InfiniteDuration();
  state.finished = event.has_finished;
  state.report.reset();
}

void RoleTable::lose(Rank rank) {
  RoleState& state = (*this)[rank];
  state.phase = Phase::kNone;
  state.report.reset();
  state.deadline = absl::InfiniteDuration();
  state.finished = false;
  state.waits = false;
}

void RoleTable::note_starved(Node node, const std::vector<StarvedWorker>& workers, int64_t period) {
  for (const StarvedWorker& worker : workers) {
    if (worker.rank.value >= size()) continue;
    RoleState& state = (*this)[worker.rank];
    if (state.phase != Phase::kNone && state.since == worker.since && state.node == node)
      state.starvation.on_report(worker.starved, period);
  }
}

bool RoleTable::is_present(Rank rank, View since) const {
  const RoleState& state = (*this)[rank];
  return state.phase == Phase::kJoined && state.since == since;
}

bool RoleTable::are_all_joined() const {
  return std::all_of(states_.begin(), states_.end(),
                     [](const RoleState& state) { return state.phase == Phase::kJoined; });
}

bool RoleTable::have_all_reported() const {
  return std::all_of(states_.begin(), states_.end(), [](const RoleState& state) {
    return state.phase == Phase::kJoined && state.report.has_value();
  });
}

bool RoleTable::have_all_finished() const {
  return std::all_of(states_.begin(), states_.end(), [](const RoleState& state) {
    return state.phase == Phase::kJoined && state.finished && !state.released;
  });
}

bool RoleTable::is_any_released() const {
  return std::any_of(states_.begin(), states_.end(),
                     [](const RoleState& state) { return state.released; });
}

bool RoleTable::are_all_gone() const {
  return std::all_of(states_.begin(), states_.end(),
                     [](const RoleState& state) { return state.phase == Phase::kNone; });
}

int RoleTable::workers_on(Node node) const {
  return static_cast<int>(std::count_if(
      states_.begin(), states_.end(),
      [&](const RoleState& state) { return state.phase != Phase::kNone && state.node == node; }));
}

std::vector<Rank> RoleTable::played_on(Node node) const {
  std::vector<Rank> ranks;
  for (int32_t r = 0; r < size(); ++r) {
    const RoleState& state = (*this)[Rank(r)];
    if (state.phase != Phase::kNone && state.node == node) ranks.push_back(Rank(r));
  }
  return ranks;
}

absl::Duration RoleTable::next_deadline() const {
  absl::Duration next = absl::InfiniteDuration();
  for (const RoleState& state : states_) next = std::min(next, state.deadline);
  return next;
}

}  // namespace evermoe
