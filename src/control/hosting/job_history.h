// Failures as JSON: of the summary of a run (docs/run-summary.md), and of OUT/failures.json, which
// hands what a host remembers of its job on to the next one.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "control/controller/controller_interface.h"
#include "control/controller/failure_record.h"
#include "env/files.h"
#include "experts/migration/expert_balance.h"

namespace evermoe {

// As the summary has them.
nlohmann::ordered_json failure_json(const FailureRecord& failure);
nlohmann::ordered_json membership_json(const std::vector<LanesChanged>& membership);
nlohmann::ordered_json rebalances_json(const std::vector<ExpertMove>& moves);

// What the hosts of a job have seen so far, in order.
struct FailureHistory {
  std::vector<FailureRecord> failures;
  int restarts = 0;                      // of the whole job
  std::vector<LanesChanged> membership;  // who trained from which state on
  std::vector<ExpertMove> moves;         // of experts
};

inline constexpr char kFailuresFile[] = "failures.json";
// So many are handed on of each: the newest.
inline constexpr size_t kFailuresHandedOnMax = 1000;

// Of `job`, a name of folder_term.h.
absl::Status write_failures(Files& files, const std::string& out, const std::string& job,
                            const FailureHistory& history);
// Nothing if the file is of another job or version, is not there or cannot be read: people miss it,
// the job does not.
FailureHistory read_failures(Files& files, const std::string& out, const std::string& job);

}  // namespace evermoe
