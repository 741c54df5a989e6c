// What goes before a role that rests moves to a node that has come, to train there: a process
// without a role becomes warm on that node, while the others train. So nobody waits for a process
// to start. Pure.
//
// Threads: one at a time.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "absl/time/time.h"
#include "control/controller/controller_interface.h"
#include "control/controller/membership/membership_decision.h"
#include "control/controller/standbys/standby_book.h"

namespace evermoe {

class WakePreparation {
 public:
  // Standbys that are to be started now.
  struct Decision {
    bool is_over = false;  // the roles may move
    std::vector<KeepStandbys> orders;
  };
  // For these moves, and no others that were asked about before. It is over when a process is warm
  // for each, or when `wait_max` has passed since the first time, or one of them has ended: a
  // process that is started then is as good.
  Decision decide(absl::Duration now, const std::vector<RoleMove>& moves,
                  const StandbyBook& standbys, absl::Duration wait_max);
  // A process has ended there before it played a role.
  void on_standby_failure(Node node) { failed_.insert(node); }
  // The roles move, or are not to any more.
  void forget();
  // When to ask again at the latest.
  absl::Duration deadline() const { return until_.value_or(absl::InfiniteDuration()); }

 private:
  std::optional<absl::Duration> until_;
  std::map<Node, int> ordered_;
  std::set<Node> failed_;
};

}  // namespace evermoe
