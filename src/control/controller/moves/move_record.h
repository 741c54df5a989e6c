// What a job remembers of one planned move of roles, done or not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/ids.h"
#include "control/controller/controller_interface.h"

namespace evermoe {

struct MoveRecord {
  enum class State : uint8_t {
    kPreparing,  // processes warm up on the new nodes
    kCopying,    // the roles' copies go there
    kLeaving,    // the roles are asked to hand over their states
    kSwitching,  // new processes take them
    kDone,
    kCalledOff  // nothing has changed
  };
  std::vector<std::string> roles;  // "1.0"
  std::vector<Node> from, to;      // of each
  std::string cause;
  State state = State::kPreparing;
  std::string reason;              // kCalledOff: why
  Step step{-1};                   // kDone: whose state moved
  int64_t bytes = 0;               // of the states that moved
  int64_t connections_opened = 0;  // from the last commit before the switch to the first one after
  // Times since the start of the controller's clock; infinite: not come yet.
  absl::Duration asked = absl::InfiniteDuration();
  absl::Duration warm = absl::InfiniteDuration();         // a process waits on every new node
  absl::Duration copied = absl::InfiniteDuration();       // they have the roles' copies
  absl::Duration stopped = absl::InfiniteDuration();      // the last commit before the switch
  absl::Duration handed_over = absl::InfiniteDuration();  // by the last role
  absl::Duration planned = absl::InfiniteDuration();      // the newest plan went out
  absl::Duration restored = absl::InfiniteDuration();     // the last new process has its state
  absl::Duration resumed = absl::InfiniteDuration();      // the next commit
  absl::Duration usual_step;                              // the median then
};
const char* to_string(
    MoveRecord::State state);  // "preparing", "copying", ..., "done", "called off"
inline bool has_ended(const MoveRecord& record) {
  return record.state == MoveRecord::State::kDone || record.state == MoveRecord::State::kCalledOff;
}
// For how long the job committed nothing because of it, beside a usual step; 0: it did not stop.
absl::Duration pause_of(const MoveRecord& record);

}  // namespace evermoe
