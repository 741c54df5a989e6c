// Descriptors of the operating system's files, and its errors as statuses.
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"

namespace evermoe {

// "PATH: cannot DOING: REASON", sorted by what the caller can do (base/error.h); of a full disk, a
// used-up quota and a stale handle with what people can do about it.
absl::Status errno_status(int error, const std::string& path, const char* doing);

// Owns a descriptor and its path. Closes it, and drops the error.
class NamedDescriptor {
 public:
  NamedDescriptor(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  NamedDescriptor(const NamedDescriptor&) = delete;
  NamedDescriptor& operator=(const NamedDescriptor&) = delete;
  ~NamedDescriptor();

  // Negative where opening has failed.
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  const std::string& path() const { return path_; }
  // Of the system call that has just failed.
  absl::Status failed(const char* doing) const;

 private:
  int fd_;
  std::string path_;
};

// open() with O_CLOEXEC and, for files that it makes, mode 0644; again when a signal comes.
int open_retrying(const std::string& path, int flags);

}  // namespace evermoe
