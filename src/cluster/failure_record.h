// What the run remembers of a failure: which roles caused it, how, and what it cost.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"

namespace evermoe {

// A moment in seconds since the run began.
struct FailureMoment {
  double seconds = 0;
  std::string what;  // "noticed", "all stopped", "started again", "ready", "caught up"
};

struct FailureRecord {
  std::vector<std::string> roles;  // "1.0"; empty where it could not be told
  std::string kind;                // "killed by signal 9 (Killed)", "hung: ...", "exit code 1: ..."
  Step step;                       // the newest committed one when the failure was noticed
  std::optional<std::string> accused;        // the role that the other workers blame
  std::optional<Step> restarted_from_step;   // nullopt: there was no restart
  // From the last sign that the job moved on until it stood at `step` again: detection, restart and
  // repeated work together. Until the failure was noticed, where the job never came so far again.
  double seconds_lost = 0;
  std::vector<FailureMoment> timeline;  // at most kFailureMomentsMax
};

inline constexpr size_t kFailureMomentsMax = 32;

}  // namespace evermoe
