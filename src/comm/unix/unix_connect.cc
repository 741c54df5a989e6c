#include "comm/unix/unix_connect.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/log.h"

namespace evermoe {
namespace {

struct AbstractName {
  sockaddr_un address{};
  socklen_t size = 0;
};

AbstractName abstract_name(const std::string& name) {
  AbstractName result;
  result.address.sun_family = AF_UNIX;
  const size_t length = std::min(name.size(), sizeof(result.address.sun_path) - 1);
  std::memcpy(result.address.sun_path + 1, name.data(), length);
  result.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return result;
}

absl::StatusOr<FileDescriptor> new_socket() {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return system_error("socket(AF_UNIX)");
  return socket;
}

bool same_user(const FileDescriptor& socket) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 &&
         credentials.uid == ::geteuid();
}

// Room for one descriptor beside the bytes of a message.
struct alignas(cmsghdr) Control {
  std::array<char, CMSG_SPACE(sizeof(int))> bytes{};
};

int descriptor_in(msghdr& message) {
  int fd = -1;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    std::memcpy(&fd, CMSG_DATA(part), sizeof(fd));
  }
  return fd;
}

}  // namespace

absl::StatusOr<ListeningSocket> listen_on_random_name() {
  std::random_device random;
  ListeningSocket result;
  result.name = absl::StrCat("evermoe-", ::getpid(), "-", absl::Hex(random()), absl::Hex(random()),
                             absl::Hex(random()));
  ASSIGN_OR_RETURN(result.socket, new_socket());
  const AbstractName name = abstract_name(result.name);
  if (::bind(result.socket.get(), reinterpret_cast<const sockaddr*>(&name.address), name.size) !=
      0) {
    return system_error("bind");
  }
  if (::listen(result.socket.get(), SOMAXCONN) != 0) return system_error("listen");
  return result;
}

absl::StatusOr<FileDescriptor> call(Rank peer, const std::string& name) {
  ASSIGN_OR_RETURN(FileDescriptor socket, new_socket());
  const AbstractName target = abstract_name(name);
  while (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&target.address), target.size) !=
         0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return FileDescriptor();
    if (errno == ECONNREFUSED)
      return PeerLost(peer, absl::StrCat("rank ", peer.value, " no longer listens"));
    return system_error("connect");
  }
  if (!same_user(socket)) {
    return PeerLost(peer,
                    absl::StrCat("rank ", peer.value, " no longer listens: another user does"));
  }
  return socket;
}

absl::StatusOr<FileDescriptor> accept_call(const FileDescriptor& listener) {
  FileDescriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket) {
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return socket;
    return system_error("accept");
  }
  if (same_user(socket)) return socket;
  // He may come often; it is said at the first, the second, the fourth, ... time.
  static std::atomic<uint64_t> refused = 0;
  if (const uint64_t count = ++refused; std::has_single_bit(count))
    log_warning(absl::StrCat("refused ", count, " connections of other users"));
  return FileDescriptor();
}

absl::StatusOr<StreamPair> make_stream_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return system_error("socketpair");
  }
  return StreamPair{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

absl::Status send_greeting(const FileDescriptor& socket, const Greeting& greeting,
                           const FileDescriptor& passed) {
  GreetingBytes bytes = encode_greeting(greeting);
  iovec part{bytes.data(), bytes.size()};
  Control control;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (passed) {
    message.msg_control = control.bytes.data();
    message.msg_controllen = control.bytes.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = passed.get();
    std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  }
  // A fresh connection takes so little at once.
  const ssize_t sent = ::sendmsg(socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent == static_cast<ssize_t>(bytes.size())) return absl::OkStatus();
  if (sent < 0 && (errno == EPIPE || errno == ECONNRESET))
    return Cancelled("the other end has closed the connection");
  return system_error("greeting");
}

absl::StatusOr<bool> GreetingReader::read(const FileDescriptor& socket) {
  while (!greeting_) {
    iovec part{bytes_.data() + count_, bytes_.size() - count_};
    Control control;
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes.data();
    message.msg_controllen = control.bytes.size();
    const ssize_t got = ::recvmsg(socket.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return false;
    if (got == 0 || (got < 0 && errno == ECONNRESET))
      return Cancelled("the other end has closed the connection");
    if (got < 0) return system_error("greeting");
    if (const int fd = descriptor_in(message); fd >= 0) passed_ = FileDescriptor(fd);
    count_ += static_cast<size_t>(got);
    if (count_ < bytes_.size()) continue;
    ASSIGN_OR_RETURN(greeting_, decode_greeting(bytes_));
  }
  return true;
}

}  // namespace evermoe
