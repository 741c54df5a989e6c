// The standbys of a job: how many wait on which node, as the agents tell, and where more of them
// are to live. Pure.
//
// They are kept where a role would be started: on nodes that play none first, which also stand in
// for whole nodes, then on those that play the fewest. They are never moved or ended: a node that
// has come plays roles as it is, and the next standby goes there. Where one is missing, a process
// whose role moves away from there becomes it: it is warm already.
//
// Threads: one at a time.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "control/controller/controller_interface.h"

namespace evermoe {

class StandbyBook {
 public:
  // So many on all nodes together.
  explicit StandbyBook(int wanted) : wanted_(wanted) {}

  // After so many in a row that ended before they played a role a node gets no more of them, until
  // it joins anew.
  static constexpr int kFailuresMax = 3;

  // Gives what people should hear of it, if anything.
  std::string on_kept(const StandbysKept& kept);
  // Its agent is gone, or has left.
  void forget(Node node) { nodes_.erase(node); }
  // A role is started there, by a standby if one is warm.
  void on_start(Node node);

  int warm(Node node) const;
  bool is_any_warm() const;
  // StandbysKept::warm_for, of those that are warm there.
  std::vector<std::vector<Rank>> warm_for(Node node) const;
  // Those that are missing, on these nodes, of which each plays so many roles; what is returned is
  // counted as if it had been told.
  std::vector<KeepStandbys> missing(const std::map<Node, int>& roles_of);
  // How many of those that are missing could be processes whose roles move away: `leavers` of each
  // node. `roles_of`: when they have moved.
  std::map<Node, int> among(const std::map<Node, int>& leavers,
                            const std::map<Node, int>& roles_of) const;
  // A process there becomes one: it is counted as if the agent had told of it.
  void expect(Node node) { ++nodes_[node].warming; }

 private:
  struct Kept {
    int warming = 0, warm = 0;
    int failures = 0;  // in a row
    std::vector<std::vector<Rank>> warm_for;
    int count() const { return warming + warm; }
  };
  // Those that are missing: counted on their nodes, and how many on each.
  std::map<Node, int> add_missing(const std::map<Node, int>& roles_of);

  int wanted_;
  std::map<Node, Kept> nodes_;
};

}  // namespace evermoe
