// Which processes play the ranks, as one of them has been told by Transport::set_peers().
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
struct NamedProcess {
  std::string address;
  View since;             // of the younger one of the two: both ends know the same
  bool is_older = false;  // than the one that sees it
  friend bool operator==(const NamedProcess&, const NamedProcess&) = default;
};

struct PeerChanges {
  // What operations with the rank fail with meanwhile. One that nobody plays is dropped once.
  std::map<Rank, absl::Status> dropped;
  std::map<Rank, NamedProcess> named;  // for the first time, or in the place of a dropped one
};

// Not synchronised.
class PeerTable {
 public:
  PeerTable(Rank rank, int size, View since, std::string address);

  // Whether the process at this address plays the rank by the last table: addresses are long, and
  // most stay.
  bool names(size_t rank, const std::string& address) const {
    return rank < places_.size() && places_[rank].process &&
           places_[rank].process->address == address;
  }
  // What a new table changes. CHECKs that it has an entry per rank.
  PeerChanges update(const std::vector<PeerAddress>& table);

 private:
  // As the last table has it.
  struct Place {
    bool is_vacant = false;  // nobody plays the rank; false before the first table
    std::optional<NamedProcess> process;
  };

  void update(Rank rank, const PeerAddress& entry, PeerChanges& changes);

  const Rank rank_;
  const std::string address_;
  View since_;
  std::vector<Place> places_;  // by rank
};

}  // namespace evermoe
