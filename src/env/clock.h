// Clock: the door to time. A test hands in one that it moves itself.
#pragma once

#include "absl/time/time.h"

namespace evermoe {

// Any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  // Time since a start that means nothing; never goes back, not even when the wall clock does.
  // Deadlines and intervals are made of it.
  virtual absl::Duration now() = 0;
  // Returns at once where `deadline` (in the time of now()) has passed.
  virtual void sleep_until(absl::Duration deadline) = 0;
  // Time that the processors have worked for the calling thread.
  virtual absl::Duration thread_time() = 0;
  // The date, for logs, records and file names only: it jumps, and must never enter training state.
  virtual absl::Time wall_now() = 0;
};

// The operating system's clock. Lives for ever.
Clock& real_clock();

}  // namespace evermoe
