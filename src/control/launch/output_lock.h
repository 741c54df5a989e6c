// One run per output folder: a lock that lasts as long as any process of the run.
//
// The descriptor is handed down to the workers, so that a folder stays locked while workers of a
// killed supervisor are still dying (they get SIGKILL with it, but that takes its time).
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace evermoe {

class OutputLock {
 public:
  // Writes this process's id into the file `path` and locks it (flock, as Files has no locks).
  // InvalidInput, with the id of the process that runs there, if somebody else holds it: at once if
  // that process lives, else after `patience`.
  static absl::StatusOr<std::unique_ptr<OutputLock>> acquire(const std::string& path,
                                                             absl::Duration patience);
  ~OutputLock();
  OutputLock(const OutputLock&) = delete;
  OutputLock& operator=(const OutputLock&) = delete;

  int fd() const { return fd_; }

 private:
  explicit OutputLock(int fd) : fd_(fd) {}
  const int fd_;
};

}  // namespace evermoe
