#include "control/agent/agent_standbys.h"

#include <signal.h>

#include <algorithm>

namespace evermoe {

AgentActions AgentStandbys::keep(int count) {
  AgentActions actions;
  while (std::ssize(standbys_) < count) {
    standbys_[--last_number_] = {};
    actions.emplace_back(SpawnStandby{last_number_});
  }
  return actions;
}

void AgentStandbys::on_spawned(int64_t number, pid_t pid) {
  if (const auto found = standbys_.find(number); found != standbys_.end()) found->second.pid = pid;
}

bool AgentStandbys::attach(StreamNumber stream, pid_t pid) {
  const auto found = std::ranges::find_if(
      standbys_, [&](const auto& one) { return one.second.pid == pid && !one.second.line; });
  if (found == standbys_.end()) return false;
  found->second.line = stream;
  return true;
}

std::optional<int64_t> AgentStandbys::speaking_on(StreamNumber stream) const {
  const auto found =
      std::ranges::find_if(standbys_, [&](const auto& one) { return one.second.line == stream; });
  return found == standbys_.end() ? std::nullopt : std::optional(found->first);
}

void AgentStandbys::on_warm(int64_t number) {
  if (const auto found = standbys_.find(number);
      found != standbys_.end() && found->second.warm == 0)
    found->second.warm = ++last_warm_;
}

AgentActions AgentStandbys::on_broken(StreamNumber stream) {
  const std::optional<int64_t> number = speaking_on(stream);
  if (!number) return {};
  Standby& standby = standbys_[*number];
  standby.line.reset();
  standby.warm = 0;
  return {SignalWorker{*number, SIGKILL}};
}

std::optional<AgentStandbys::Taken> AgentStandbys::take() {
  auto first = standbys_.end();
  for (auto at = standbys_.begin(); at != standbys_.end(); ++at) {
    const bool is_warm = at->second.warm > 0 && at->second.line;
    if (is_warm && (first == standbys_.end() || at->second.warm < first->second.warm)) first = at;
  }
  if (first == standbys_.end()) return std::nullopt;
  const Taken taken{first->first, first->second.pid, *first->second.line};
  standbys_.erase(first);
  return taken;
}

AgentActions AgentStandbys::end_all() const {
  AgentActions actions;
  for (const auto& [number, standby] : standbys_)
    actions.emplace_back(SignalWorker{number, SIGKILL});
  return actions;
}

StandbysKept AgentStandbys::kept() const {
  StandbysKept kept;
  for (const auto& [number, standby] : standbys_) ++(standby.warm > 0 ? kept.warm : kept.warming);
  return kept;
}

}  // namespace evermoe
