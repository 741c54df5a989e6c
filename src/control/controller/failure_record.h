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

// How a protected job went on after a failure without starting again.
struct LocalRecovery {
  std::vector<std::string>
      causes;  // "1.0: killed by signal 9 (Killed)": one line for each lost role
  std::vector<std::string> standby_roles;  // those of them that a warm standby took
  std::vector<int> rolled_back_stages;     // that went back, or began anew
  int64_t recomputed_steps = 0;            // the most of any rank
  int64_t survivor_recomputed_steps = 0;   // the most of any rank that was not lost
  std::vector<std::string> sources;        // "1.0: window 12 from 0.1"
  bool restarted_all = false;              // all went back to the newest durable state after all
  int restarts = 0;                        // so many times
  // Seconds from the failure, or from the last moment before it that is known, until
  std::optional<double> detect;    // the controller knew
  std::optional<double> view;      // the new view was planned
  std::optional<double> load;      // the last rank had gathered its state
  std::optional<double> catch_up;  // the last rank had run its steps again, or made its updates
  std::optional<double> verify;    // the last survivor had compared its state
  std::optional<double>
      resume;  // the job made its next commit; nullopt, like the others: not reached
};

struct FailureRecord {
  int64_t incident = 0;            // its number in the logs of all processes; 0: it has none
  std::vector<std::string> roles;  // "1.0"; empty where it could not be told
  std::string kind;                // "killed by signal 9 (Killed)", "hung: ...", "exit code 1: ..."
  Step step;                       // the newest committed one when the failure was noticed
  std::optional<std::string> accused;       // the role that the other workers blame
  std::optional<Step> restarted_from_step;  // nullopt: there was no restart
  // From the last sign that the job moved on until it stood at `step` again: detection, restart and
  // repeated work together. Until the failure was noticed, where the job never came so far again.
  double seconds_lost = 0;
  std::vector<FailureMoment> timeline;    // at most kFailureMomentsMax
  std::optional<LocalRecovery> recovery;  // of a protected job
};

inline constexpr size_t kFailureMomentsMax = 32;

// "worker 1.0 at step 25: killed by signal 9 (Killed); started again from step 20, 1.2 s lost".
// Of a protected job: "worker 1.0 at step 25: killed by signal 9 (Killed); stage 1 ran 3 steps
// again, went on after 0.42 s".
std::string to_text(const FailureRecord& failure);
std::string to_text(const LocalRecovery& recovery);

}  // namespace evermoe
