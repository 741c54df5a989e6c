#include "control/wire/unproven_connections.h"

#include <algorithm>

namespace evermoe {

void UnprovenConnections::add(Number number, const std::string& source, absl::Duration now) {
  if (connections_.emplace(number, Connection{source, now}).second) ++sources_[source];
}

void UnprovenConnections::remove(Number number) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;
  const auto source = sources_.find(found->second.source);
  if (--source->second == 0) sources_.erase(source);
  connections_.erase(found);
}

std::optional<UnprovenConnections::Number> UnprovenConnections::take_overdue(absl::Duration now) {
  if (connections_.empty()) return std::nullopt;
  auto worst = connections_.begin();
  bool is_overdue = now - worst->second.began >= kAgeMax;
  if (!is_overdue && is_full()) {
    const auto most =
        std::ranges::max_element(sources_, {}, [](const auto& source) { return source.second; });
    worst = std::ranges::find_if(connections_, [&](const auto& connection) {
      return connection.second.source == most->first;
    });
    is_overdue = most->second > kSourceMax || now - worst->second.began >= kAgeMin;
  }
  if (!is_overdue) return std::nullopt;
  const Number number = worst->first;
  remove(number);
  return number;
}

absl::Duration UnprovenConnections::next_deadline() const {
  if (connections_.empty()) return absl::InfiniteDuration();
  return connections_.begin()->second.began + (is_full() ? kAgeMin : kAgeMax);
}

}  // namespace evermoe
