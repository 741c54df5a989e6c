#include "control/agent/agent_workers.h"

#include <signal.h>

#include <algorithm>

namespace evermoe {
namespace {

// For a worker to forget its role: what is being saved is written first.
constexpr absl::Duration kRelieveMax = absl::Seconds(30);

}  // namespace

bool AgentWorkers::plays(Rank rank) const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [&](const Entry& worker) { return worker.second.rank == rank; });
}

AgentActions AgentWorkers::spawn(int64_t start, const StartWorker& order, const FolderTerm& term) {
  workers_[start] = {.rank = order.rank, .since = order.since, .warm_for = {order.rank}};
  return {SpawnWorker{start, order.rank, order.since, term}};
}

AgentActions AgentWorkers::start(int64_t start, const StartWorker& order, const FolderTerm& term) {
  if (!plays(order.rank)) return spawn(start, order, term);
  AgentActions actions;
  for (auto& [number, worker] : workers_) {
    if (worker.rank != order.rank) continue;
    worker.is_disowned = true;
    actions.emplace_back(SignalWorker{number, SIGKILL});
  }
  waiting_[order.rank] = {start, order};
  return actions;
}

AgentActions AgentWorkers::start_waiting(Rank rank, const FolderTerm& term) {
  const auto waiting = waiting_.find(rank);
  if (plays(rank) || waiting == waiting_.end()) return {};
  const auto [start, order] = waiting->second;
  waiting_.erase(waiting);
  return spawn(start, order, term);
}

AgentActions AgentWorkers::kill(int64_t start, Rank rank) {
  if (const auto waiting = waiting_.find(rank);
      waiting != waiting_.end() && waiting->second.start == start)
    waiting_.erase(waiting);
  const AgentWorker* const worker = find(start);
  const bool plays = worker != nullptr && worker->becomes_standby == 0;
  return plays ? AgentActions{SignalWorker{start, SIGKILL}} : AgentActions{};
}

// ---- those whose role is another process's

bool AgentWorkers::relieve(absl::Duration now, int64_t start, int64_t standby,
                           AgentActions& actions) {
  AgentWorker* const worker = find(start);
  if (worker == nullptr || !worker->stream || worker->is_disowned || is_draining_) return false;
  worker->becomes_standby = standby;
  worker->relieved_by = now + kRelieveMax;
  actions.emplace_back(RelieveWorker{start, *worker->stream, standby});
  return true;
}

std::optional<AgentWorkers::Entry> AgentWorkers::take_relieved(pid_t pid) {
  const auto found = std::ranges::find_if(workers_, [&](const Entry& one) {
    return one.second.pid == pid && one.second.becomes_standby != 0;
  });
  if (found == workers_.end()) return std::nullopt;
  Entry taken = std::move(*found);
  workers_.erase(found);
  return taken;
}

AgentActions AgentWorkers::end_late(absl::Duration now) {
  AgentActions actions;
  for (auto& [start, worker] : workers_) {
    if (now < worker.relieved_by) continue;
    worker.relieved_by = absl::InfiniteDuration();
    actions.emplace_back(SignalWorker{start, SIGKILL});
  }
  return actions;
}

absl::Duration AgentWorkers::next_due() const {
  absl::Duration next = absl::InfiniteDuration();
  for (const auto& [start, worker] : workers_) next = std::min(next, worker.relieved_by);
  return next;
}

int AgentWorkers::relieved() const {
  return static_cast<int>(std::ranges::count_if(
      workers_, [](const Entry& one) { return one.second.becomes_standby != 0; }));
}

// ----

AgentActions AgentWorkers::disown_all() {
  waiting_.clear();
  AgentActions actions;
  for (auto& [start, worker] : workers_) {
    worker.is_disowned = true;
    actions.emplace_back(SignalWorker{start, SIGKILL});
  }
  return actions;
}

AgentActions AgentWorkers::drain() {
  is_draining_ = true;
  AgentActions actions;
  for (Entry& worker : workers_) {
    for (AgentAction& action : ask_to_drain(worker)) actions.push_back(std::move(action));
  }
  return actions;
}

// Not before it has attached, because a program that has just begun does not listen to signals yet.
AgentActions AgentWorkers::ask_to_drain(Entry& worker) {
  if (!worker.second.stream || std::exchange(worker.second.is_asked_to_drain, true)) return {};
  return {SignalWorker{worker.first, SIGTERM}};
}

std::optional<AgentActions> AgentWorkers::attach(StreamNumber stream, pid_t pid) {
  const auto worker = std::find_if(workers_.begin(), workers_.end(),
                                   [&](const Entry& one) { return one.second.pid == pid; });
  if (worker == workers_.end() || worker->second.stream) return std::nullopt;
  worker->second.stream = stream;
  return is_draining_ ? ask_to_drain(*worker) : AgentActions{};
}

void AgentWorkers::on_broken(StreamNumber stream) {
  for (auto& [start, worker] : workers_) {
    if (worker.stream == stream) worker.stream.reset();
  }
}

void AgentWorkers::forget_registrations() {
  for (auto& [start, worker] : workers_) {
    worker.is_registered = worker.has_given_sign = false;
    worker.is_disowned = worker.is_disowned || worker.becomes_standby != 0;
  }
  told_.reset();
}

bool AgentWorkers::have_registered() const {
  return std::all_of(workers_.begin(), workers_.end(), [](const Entry& worker) {
    return worker.second.is_registered || worker.second.is_disowned || !worker.second.stream;
  });
}

AgentWorker* AgentWorkers::find(int64_t start) {
  const auto worker = workers_.find(start);
  return worker == workers_.end() ? nullptr : &worker->second;
}

AgentWorkers::Entry* AgentWorkers::speaking_on(StreamNumber stream) {
  const auto worker = std::find_if(workers_.begin(), workers_.end(),
                                   [&](const Entry& one) { return one.second.stream == stream; });
  return worker == workers_.end() ? nullptr : &*worker;
}

std::optional<AgentWorker> AgentWorkers::remove(int64_t start) {
  auto worker = workers_.extract(start);
  if (worker.empty()) return std::nullopt;
  return std::move(worker.mapped());
}

AgentActions AgentWorkers::hand_on(int64_t start, const SendOrder& order) const {
  const auto worker = workers_.find(start);
  if (worker == workers_.end() || !worker->second.stream) return {};
  return {ToWorker{*worker->second.stream, {0, order}}};
}

std::vector<AliveWorker> AgentWorkers::take_signs() {
  std::vector<AliveWorker> alive;
  for (auto& [start, worker] : workers_) {
    if (std::exchange(worker.has_given_sign, false) && !worker.is_disowned)
      alive.push_back(
          {start,
           {worker.rank, worker.since, worker.entered, worker.waits,
            std::exchange(worker.step_times, {}), std::exchange(worker.link_times, {})}});
  }
  return alive;
}

// When all go back commits come again, in a later view.
bool AgentWorkers::note_commit(const Progress& progress) {
  if (told_ && progress.view == told_->view && progress.newest <= told_->newest) return false;
  told_ = progress;
  return true;
}

std::vector<StarvedWorker> AgentWorkers::starved(
    const std::function<absl::Duration(pid_t)>& measure) const {
  std::vector<StarvedWorker> starved;
  for (const auto& [start, worker] : workers_) {
    if (worker.pid == 0 || worker.is_disowned) continue;
    starved.push_back({worker.rank, worker.since, measure(worker.pid) - worker.starved_before});
  }
  return starved;
}

}  // namespace evermoe
