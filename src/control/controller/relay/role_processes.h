// Which process plays which role, as the agents say: the newest one of each.
//
// A node that was lost may live on with its workers, so several processes of one role may speak.
// Starts are numbered through the lives of all controllers: the newest process has the largest.
//
// Pure. Threads: one at a time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "base/ids.h"
#include "control/controller/controller_interface.h"

namespace evermoe {

class RoleProcesses {
 public:
  // Why a process that is not the newest of its role has to end.
  static constexpr char kReplaced[] = "another process plays its role";

  struct Process {
    int64_t start = 0;
    Node node;
    pid_t pid = 0;                                // 0: not known, or ended
    View since;                                   // as given by StartWorker
    absl::Duration heard = absl::ZeroDuration();  // it lived then, and nothing later is known
    // By which it is started, until somebody has heard of the process: a line that breaks may have
    // lost it.
    std::optional<StartWorker> unconfirmed = std::nullopt;
  };

  // `life`: how many controllers the job had before this one.
  RoleProcesses(int64_t roles, int64_t life) : life_(life), newest_(static_cast<size_t>(roles)) {}

  bool has(Rank rank) const { return rank.value < std::ssize(newest_); }
  // REQUIRES, as below: has(rank)
  Process& of(Rank rank) { return newest_[static_cast<size_t>(rank.value)]; }
  const Process& of(Rank rank) const { return newest_[static_cast<size_t>(rank.value)]; }
  // That have a process now, in order.
  std::vector<Rank> alive() const;
  // Process `start` of the role lived then, on that node. False if it is not the newest.
  bool hear(Rank rank, int64_t start, Node node, absl::Duration lived);
  // A process of the role is to be started; its number.
  int64_t begin(const StartWorker& order, absl::Duration now);

 private:
  const int64_t life_;
  int64_t starts_ = 0;
  std::vector<Process> newest_;  // by rank
};

}  // namespace evermoe
