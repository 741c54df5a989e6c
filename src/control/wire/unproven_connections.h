// Connections from a network whose other end has not proven yet that it belongs to the job: how
// many there may be, for how long, and which one has to go. Pure.
//
// They may be many at once when all agents come to a new controller, each from its machine; one
// machine with many is a stranger. So a full table has no room for a machine that has kSourceMax in
// it already: its oldest one goes. Others wait in the kernel's queue, at most until kAgeMin later.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace evermoe {

class UnprovenConnections {
 public:
  static constexpr size_t kMax = 256;
  static constexpr size_t kSourceMax = 16;
  static constexpr absl::Duration kAgeMin = absl::Seconds(1);
  // From the connection to the first valid envelope.
  static constexpr absl::Duration kAgeMax = absl::Seconds(30);

  using Number = int64_t;

  // `source`: the machine that it comes from.
  void add(Number number, const std::string& source, absl::Duration now);
  // It has proven itself, or ended. Of no other one nothing happens.
  void remove(Number number);

  bool is_full() const { return connections_.size() >= kMax; }
  // The one that is to be cut now: too old, or in the way of others. Removed from here.
  std::optional<Number> take_overdue(absl::Duration now);
  // When to look again; infinite if there is none.
  absl::Duration next_deadline() const;

 private:
  struct Connection {
    std::string source;
    absl::Duration began;
  };
  // Numbers grow, so the first one is the oldest.
  std::map<Number, Connection> connections_;
  std::map<std::string, size_t> sources_;
};

}  // namespace evermoe
