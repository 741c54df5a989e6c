// Keeps a second run of this machine out of a folder by mistake: a lock that lasts as long as any
// process of the first one. Who may write is not decided here but by terms
// (checkpoint/write/folder_term.h): a file system that has no locks is none the worse for it.
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
  enum class Kind {
    kAlone,       // nobody else
    kAmongHosts,  // other hosts of a job on several machines, which take it over from each other
  };
  // Writes this process's id into the file `path` and locks it (flock, as Files has no locks).
  // InvalidInput, with the id of the process that runs there, if somebody else holds it: at once if
  // that process lives, else after `patience`.
  static absl::StatusOr<std::unique_ptr<OutputLock>> acquire(const std::string& path,
                                                             absl::Duration patience,
                                                             Kind kind = Kind::kAlone);
  ~OutputLock();
  OutputLock(const OutputLock&) = delete;
  OutputLock& operator=(const OutputLock&) = delete;

  int fd() const { return fd_; }

 private:
  explicit OutputLock(int fd) : fd_(fd) {}
  const int fd_;
};

}  // namespace evermoe
