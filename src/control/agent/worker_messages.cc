#include "control/agent/worker_messages.h"

namespace evermoe {
namespace {

bool speaks_for_itself(const AgentWorker& worker, Rank rank, View since) {
  return worker.rank == rank && worker.since == since;
}

// The oldest are left out.
template <typename Time>
void add(const std::vector<Time>& more, size_t count_max, std::vector<Time>& times) {
  times.insert(times.end(), more.begin(), more.end());
  if (times.size() > count_max)
    times.erase(times.begin(), times.end() - static_cast<std::ptrdiff_t>(count_max));
}

}  // namespace

HeardOfWorker hear_of_worker(AgentWorker& worker, bool has_controller, const MemberJoined& joined) {
  if (!speaks_for_itself(worker, joined.rank, joined.since)) return {.is_nonsense = true};
  if (!has_controller || worker.is_disowned) return {};
  worker.is_registered = true;
  return {.has_registered = true, .told = joined};
}

HeardOfWorker hear_of_worker(AgentWorker& worker, bool, const MemberSaid& said) {
  if (!speaks_for_itself(worker, said.rank, said.since)) return {.is_nonsense = true};
  if (!worker.is_registered) return {};
  const auto* const progress = std::get_if<Progress>(&said.message);
  // The controller does not listen to one that is disowned: another one has to tell it.
  if (progress == nullptr || worker.is_disowned) return {.told = said};
  return {.told = said, .commit = *progress};
}

HeardOfWorker hear_of_worker(AgentWorker& worker, bool, const MemberAlive& alive) {
  if (!speaks_for_itself(worker, alive.rank, alive.since)) return {.is_nonsense = true};
  worker.entered = alive.entered;
  worker.waits = alive.waits;
  add(alive.step_times, kStepTimesMax, worker.step_times);
  add(alive.link_times, kLinkTimesMax, worker.link_times);
  worker.has_given_sign = worker.is_registered;
  return {};
}

HeardOfWorker hear_of_worker(AgentWorker& worker, bool, const WorkerReport& report) {
  if (report.rank != worker.rank) return {.is_nonsense = true};
  if (report.kind == WorkerReport::Kind::kFailed) worker.failed = report;
  if (worker.is_disowned) return {};
  return {.told = report, .is_kept = true};
}

}  // namespace evermoe
