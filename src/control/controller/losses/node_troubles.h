// Which nodes do not reach which, as their workers say, and which node is at fault: the one that
// several others have trouble with. Its agent may be well: only the network of its workers is out.
//
// Of two nodes that do not reach each other either may be at fault, and nobody is blamed here. Nor
// is one that complains of several which may all be gone: only those count that have complained of
// it themselves, or whose agents were heard since.
//
// Pure. Threads: one at a time.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "base/ids.h"
#include "control/controller/controller_interface.h"

namespace evermoe {

class NodeTroubles {
 public:
  // A process, by its role and the view of its start, and where it runs.
  struct Process {
    Rank rank;
    View since;
    Node node;
  };

  // One does not reach the other one. Of two on one node nothing is noted.
  void complain(absl::Duration now, const Process& accuser, const Process& accused);
  // The process has ended by itself, or hung: what was said of it, and what it said, tells nothing
  // of networks.
  void forget(Rank rank, View since);
  // A process on one of them is replaced because it and one on the other do not reach each other.
  // True: that has not helped before.
  bool replace(Node one, Node other) { return !replaced_.insert(std::minmax(one, other)).second; }
  // A commit: all reach whom they need.
  void clear() {
    between_.clear();
    replaced_.clear();
  }

  // The node that has trouble with at least two others, and with more than any other node has;
  // nullopt: there is none. `heard`: when the agent of a node was heard last.
  std::optional<Node> at_fault(
      const std::function<std::optional<absl::Duration>(Node)>& heard) const;
  // Who has trouble with it: "nodes 0, 2 and 3".
  std::string partners(Node node) const;

 private:
  struct Complaint {
    Process accuser, accused;
    absl::Duration time;
  };
  using Said = std::map<std::pair<Rank, Rank>, Complaint>;  // the newest one of each two roles
  bool is_alive(Node partner, const Said& said,
                const std::function<std::optional<absl::Duration>(Node)>& heard) const;

  std::map<Node, std::map<Node, Said>> between_;  // both ways round; none is empty
  std::set<std::pair<Node, Node>> replaced_;
};

}  // namespace evermoe
