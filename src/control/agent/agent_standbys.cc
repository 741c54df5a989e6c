#include "control/agent/agent_standbys.h"

#include <signal.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace evermoe {

AgentActions AgentStandbys::keep(int count, const std::vector<Rank>& roles) {
  AgentActions actions;
  while (std::ssize(standbys_) < count) {
    const int64_t number = next_number();
    standbys_[number].warm_for = roles;
    actions.emplace_back(SpawnStandby{number, roles});
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

template <typename Order>
std::map<int64_t, AgentStandbys::Standby>::iterator AgentStandbys::first_by(const Order& order) {
  auto first = standbys_.end();
  for (auto at = standbys_.begin(); at != standbys_.end(); ++at) {
    if (!at->second.can_play()) continue;
    if (first == standbys_.end() || order(at->second) < order(first->second)) first = at;
  }
  return first;
}

AgentActions AgentStandbys::let_go(Standby& standby) {
  JoinerWanted off = *std::exchange(standby.waits_for, std::nullopt);
  off.is_off = true;
  if (!standby.line) return {};
  return {ToWorker{*standby.line, {0, std::move(off)}}};
}

AgentActions AgentStandbys::on_wanted(const JoinerWanted& wanted) {
  AgentActions actions;
  for (auto& [number, standby] : standbys_) {
    if (!standby.waits_for || standby.waits_for->rank != wanted.rank) continue;
    for (AgentAction& action : let_go(standby)) actions.push_back(std::move(action));
  }
  if (wanted.is_off) return actions;
  const auto first = first_by([](const Standby& standby) {
    return std::pair(standby.waits_for.has_value(), standby.warm);
  });
  if (first == standbys_.end() || first->second.waits_for) return actions;
  first->second.waits_for = wanted;
  actions.emplace_back(ToWorker{*first->second.line, {0, wanted}});
  return actions;
}

AgentActions AgentStandbys::forget_wanted() {
  AgentActions actions;
  for (auto& [number, standby] : standbys_) {
    if (!standby.waits_for) continue;
    for (AgentAction& action : let_go(standby)) actions.push_back(std::move(action));
  }
  return actions;
}

std::optional<AgentStandbys::Taken> AgentStandbys::take(Rank role) {
  const auto first = first_by([&](const Standby& standby) {
    const bool waits_for_it = standby.waits_for && standby.waits_for->rank == role;
    return std::tuple(!waits_for_it, standby.waits_for.has_value(), standby.warm);
  });
  if (first == standbys_.end()) return std::nullopt;
  Taken taken{first->first, first->second.pid, *first->second.line, first->second.warm_for};
  if (!taken.warm_for.empty() && std::ranges::count(taken.warm_for, role) == 0)
    taken.warm_for.push_back(role);
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
  for (const auto& [number, standby] : standbys_) {
    ++(standby.warm > 0 ? kept.warm : kept.warming);
    if (standby.warm > 0) kept.warm_for.push_back(standby.warm_for);
  }
  return kept;
}

}  // namespace evermoe
