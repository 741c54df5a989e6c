#include "comm/transport/socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {
namespace {

// Calls `move(bytes left)` until everything has been moved, sleeping in poll() for `events`.
template <typename Bytes, typename Move>
absl::Status move_all(int fd, Bytes bytes, short events, const Deadline& deadline, Move move) {
  while (!bytes.empty()) {
    const ssize_t moved = move(bytes);
    if (moved > 0) {
      bytes = bytes.subspan(static_cast<size_t>(moved));
    } else if (moved == 0 || errno == EPIPE || errno == ECONNRESET) {
      return Cancelled("the other end has closed the connection");
    } else if (errno == EAGAIN) {
      RETURN_IF_ERROR(wait_for(fd, events, deadline));
    } else if (errno != EINTR) {
      return system_error("socket");
    }
  }
  return absl::OkStatus();
}

}  // namespace

void FileDescriptor::reset() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

absl::Status system_error(const std::string& what) {
  return Internal(absl::StrCat(what, ": ", std::strerror(errno)));
}

absl::Status wait_for(int fd, short events, const Deadline& deadline) {
  pollfd watched{fd, events, 0};
  while (true) {
    const int ready = ::poll(&watched, 1, deadline.left_ms());
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return system_error("poll");
    if (deadline.passed()) return Timeout("nothing happened on a socket in time");
  }
}

absl::Status send_all(int fd, std::span<const std::byte> bytes, const Deadline& deadline) {
  return move_all(fd, bytes, POLLOUT, deadline, [fd](std::span<const std::byte> left) {
    return ::send(fd, left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  });
}

absl::Status receive_all(int fd, std::span<std::byte> bytes, const Deadline& deadline) {
  return move_all(fd, bytes, POLLIN, deadline, [fd](std::span<std::byte> left) {
    return ::recv(fd, left.data(), left.size(), MSG_DONTWAIT);
  });
}

}  // namespace evermoe
