// What a table of Transport::meet() means to one process: whom to drop, whom to meet, and who
// calls.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/ids.h"
#include "comm/transport/transport.h"

namespace evermoe {

// A process as another one sees it.
struct WantedProcess {
  std::string address;
  View since;             // of the younger one of the two: both ends know the same
  bool is_older = false;  // then we call it
  friend bool operator==(const WantedProcess&, const WantedProcess&) = default;
};

struct MeetingPlan {
  std::map<Rank, absl::Status> dropped;   // and what operations with the rank fail with meanwhile
  std::map<Rank, WantedProcess> missing;  // not met yet
};

// Who has been met. Of the thread in meet().
class MetProcesses {
 public:
  MetProcesses(Rank rank, int size, View since, std::string address);

  // Forgets whom the table replaces or does not name. CHECKs that it has an entry per rank.
  MeetingPlan plan(const std::vector<PeerAddress>& table);

  void add(Rank rank, WantedProcess process);
  bool contains(Rank rank) const { return met_[static_cast<size_t>(rank.value)].has_value(); }
  int size() const { return static_cast<int>(met_.size()); }

 private:
  const Rank rank_;
  const std::string address_;
  View since_;
  std::vector<std::optional<WantedProcess>> met_;  // by rank
};

}  // namespace evermoe
