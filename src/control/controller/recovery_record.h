// What a job remembers of one recovery: from the first failure that was noticed until the job made
// new commits again. Further failures on the way belong to the same record.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/ids.h"

namespace evermoe {

// How every line of an incident begins, in the logs of all processes: "incident 3: killed". For no
// incident, 0, the text alone.
inline std::string in_incident(int64_t incident, const std::string& text) {
  return incident == 0 ? text : absl::StrCat("incident ", incident, ": ", text);
}

struct RecoveryRecord {
  int64_t incident = 0;            // its number in the logs of all processes, from 1
  std::vector<std::string> roles;  // "1.0": lost, in the order noticed
  // Of these, those that a warm standby plays, in the order in which it took them.
  std::vector<std::string> standby_roles;
  std::vector<std::string> causes;  // one line each: role and how
  std::vector<int> rolled_back_stages;
  bool restarted_all = false;
  Step restarted_from{-1};           // restarted_all: the step of the newest such state, once known
  int restarts = 0;                  // of the whole job
  std::vector<std::string> reasons;  // of the plans
  std::vector<std::string> sources;  // "1.0: window 12 from 0.1"
  std::vector<View> views;           // opened for it
  Step step;                         // newest committed when it was noticed
  int64_t recomputed_steps = 0;      // largest of any rank
  int64_t survivor_recomputed_steps = 0;  // largest of any rank that was not lost
  // Times since the start of the controller's clock; infinite: not come yet.
  absl::Duration noticed = absl::InfiniteDuration();
  absl::Duration planned = absl::InfiniteDuration();    // the newest plan went out
  absl::Duration restored = absl::InfiniteDuration();   // the last rank had gathered its state
  absl::Duration caught_up = absl::InfiniteDuration();  // the last rank had run all steps again
  absl::Duration verified = absl::InfiniteDuration();   // the last survivor had compared its state
  absl::Duration resumed = absl::InfiniteDuration();    // the first new commit
  bool is_over() const { return resumed < absl::InfiniteDuration(); }
};

}  // namespace evermoe
