// Small doors to the kernel's sockets, shared by the transports and the self-tests of a machine.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/transport/deadline.h"

namespace evermoe {

// Owns a file descriptor; -1 is none.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset();
  // The caller owns it from now on.
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// "what: strerror(errno)" as Internal.
absl::Status system_error(const std::string& what);

// Blocks until `fd` has one of the poll events, or Timeout (which accuses nobody).
absl::Status wait_for(int fd, short events, const Deadline& deadline);

// Moves all bytes over a non-blocking socket before the deadline. Timeout, or Cancelled if the
// other end has closed.
absl::Status send_all(int fd, std::span<const std::byte> bytes, const Deadline& deadline);
absl::Status receive_all(int fd, std::span<std::byte> bytes, const Deadline& deadline);

}  // namespace evermoe
