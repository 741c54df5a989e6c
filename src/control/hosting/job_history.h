// OUT/history.json: what the hosts of a job remember of it, which each hands on to the next one.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "control/controller/controller_interface.h"
#include "control/controller/failure_record.h"
#include "control/controller/moves/move_record.h"
#include "control/controller/stragglers/slowness_records.h"
#include "env/files.h"
#include "experts/migration/expert_balance.h"

namespace evermoe {

// All in order, oldest first.
struct JobHistory {
  std::vector<FailureRecord> failures;
  int restarts = 0;                      // of the whole job
  std::vector<LanesChanged> membership;  // who trained from which state on
  std::vector<ExpertMove> moves;         // of experts
  std::vector<MoveRecord> role_moves;    // those that are over
  std::vector<StragglerRecord> stragglers;
  std::vector<SlowLinkRecord> slow_links;
};

inline constexpr char kHistoryFile[] = "history.json";
// So many are handed on of each: the newest.
inline constexpr size_t kHandedOnMax = 1000;

// Of `job`, a name of folder_term.h.
absl::Status write_history(Files& files, const std::string& out, const std::string& job,
                           const JobHistory& history);
// Nothing if the file is of another job or version, is not there or cannot be read: people miss it,
// the job does not.
JobHistory read_history(Files& files, const std::string& out, const std::string& job);

}  // namespace evermoe
