#include "comm/unix_connect.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/frame.h"

namespace evermoe {
namespace {

// An honest peer greets right after it has connected; a stranger that stays silent must not use up
// the time of the others.
constexpr absl::Duration kGreetingMax = absl::Seconds(5);
// Between two attempts when the peer's queue of connections is full.
constexpr int kRetryMs = 2;

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

absl::Status greet(const FileDescriptor& socket, Rank rank, size_t size, const Deadline& deadline) {
  const FrameHeader hello{FrameKind::kHello,
                          Tag{View(static_cast<uint32_t>(size)), 0, static_cast<uint32_t>(rank.value)}, 0};
  return send_all(socket.get(), encode_frame(hello), deadline);
}

// The rank that greets from the other end.
absl::StatusOr<Rank> hear_greeting(const FileDescriptor& socket, size_t size, const Deadline& deadline) {
  FrameBytes bytes;
  RETURN_IF_ERROR(receive_all(socket.get(), bytes, deadline));
  ASSIGN_OR_RETURN(const FrameHeader hello, decode_frame(bytes));
  if (hello.kind != FrameKind::kHello || hello.tag.purpose >= size) return Corrupt("not a greeting");
  if (hello.tag.view.value != size) {
    return InvalidInput(absl::StrCat("rank ", hello.tag.purpose, " believes in ", hello.tag.view.value,
                                     " ranks, this one in ", size));
  }
  return Rank(static_cast<int32_t>(hello.tag.purpose));
}

absl::StatusOr<FileDescriptor> connect_to(Rank peer, const std::string& name, const Deadline& deadline) {
  ASSIGN_OR_RETURN(FileDescriptor socket, new_socket());
  const AbstractName target = abstract_name(name);
  while (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&target.address), target.size) != 0) {
    if (errno == ECONNREFUSED) {
      return PeerLost(peer, absl::StrCat("rank ", peer.value, " no longer listens"));
    }
    if (errno != EAGAIN && errno != EINTR) return system_error("connect");
    if (deadline.passed()) {
      return Timeout(peer, absl::StrCat("rank ", peer.value, " does not accept connections"));
    }
    ::poll(nullptr, 0, kRetryMs);
  }
  return socket;
}

bool same_user(const FileDescriptor& socket) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 &&
         credentials.uid == ::geteuid();
}

std::string missing_ranks(const std::vector<FileDescriptor>& sockets, size_t first) {
  std::vector<size_t> missing;
  for (size_t rank = first; rank < sockets.size(); ++rank) {
    if (!sockets[rank]) missing.push_back(rank);
  }
  return absl::StrJoin(missing, ", ");
}

size_t first_missing(const std::vector<FileDescriptor>& sockets, size_t first) {
  while (first < sockets.size() && sockets[first]) ++first;
  return first;
}

// Takes one waiting connection, if there is one of a rank that is still missing.
absl::Status accept_one(const FileDescriptor& listener, Rank rank, const Deadline& deadline,
                        std::vector<FileDescriptor>& sockets) {
  FileDescriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket) {
    return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED ? absl::OkStatus()
                                                                      : system_error("accept");
  }
  if (!same_user(socket)) {
    log_warning("refused a connection of another user");
    return absl::OkStatus();
  }
  const Deadline greeting(std::min(kGreetingMax, deadline.left()));
  const auto peer = hear_greeting(socket, sockets.size(), greeting);
  if (absl::IsInvalidArgument(peer.status())) return peer.status();
  if (!peer.ok()) {
    log_warning(absl::StrCat("refused a connection: ", peer.status().ToString()));
    return absl::OkStatus();
  }
  if (*peer <= rank || sockets[static_cast<size_t>(peer->value)]) {
    return InvalidInput(absl::StrCat("rank ", peer->value, " has connected twice"));
  }
  RETURN_IF_ERROR(greet(socket, rank, sockets.size(), deadline));
  sockets[static_cast<size_t>(peer->value)] = std::move(socket);
  return absl::OkStatus();
}

absl::Status accept_higher(const FileDescriptor& listener, Rank rank, const Deadline& deadline,
                           std::vector<FileDescriptor>& sockets) {
  const auto first = static_cast<size_t>(rank.value) + 1;
  while (first_missing(sockets, first) < sockets.size()) {
    if (absl::IsDeadlineExceeded(wait_for(listener.get(), POLLIN, deadline)) || deadline.passed()) {
      return Timeout(Rank(static_cast<int32_t>(first_missing(sockets, first))),
                     absl::StrCat("ranks ", missing_ranks(sockets, first), " have not connected in time"));
    }
    RETURN_IF_ERROR(accept_one(listener, rank, deadline, sockets));
  }
  return absl::OkStatus();
}

absl::Status hear_lower(Rank rank, const Deadline& deadline, const std::vector<FileDescriptor>& sockets) {
  for (int32_t lower = 0; lower < rank.value; ++lower) {
    const auto heard = hear_greeting(sockets[static_cast<size_t>(lower)], sockets.size(), deadline);
    if (absl::IsDeadlineExceeded(heard.status())) {
      return Timeout(Rank(lower), absl::StrCat("rank ", lower, " has not answered our greeting in time"));
    }
    if (absl::IsCancelled(heard.status())) {
      return PeerLost(Rank(lower), absl::StrCat("rank ", lower, " has gone while we connected"));
    }
    RETURN_IF_ERROR(heard.status());
    if (*heard != Rank(lower)) {
      return InvalidInput(absl::StrCat("rank ", heard->value, " answers at the address of rank ", lower));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ListeningSocket> listen_on_random_name() {
  std::random_device random;
  ListeningSocket result;
  result.name = absl::StrCat("evermoe-", ::getpid(), "-", absl::Hex(random()), absl::Hex(random()),
                             absl::Hex(random()));
  ASSIGN_OR_RETURN(result.socket, new_socket());
  const AbstractName name = abstract_name(result.name);
  if (::bind(result.socket.get(), reinterpret_cast<const sockaddr*>(&name.address), name.size) != 0) {
    return system_error("bind");
  }
  if (::listen(result.socket.get(), SOMAXCONN) != 0) return system_error("listen");
  return result;
}

absl::StatusOr<std::vector<FileDescriptor>> connect_mesh(const FileDescriptor& listener, Rank rank,
                                                         const std::vector<std::string>& names,
                                                         const Deadline& deadline) {
  std::vector<FileDescriptor> sockets(names.size());
  for (int32_t lower = 0; lower < rank.value; ++lower) {
    const auto index = static_cast<size_t>(lower);
    ASSIGN_OR_RETURN(sockets[index], connect_to(Rank(lower), names[index], deadline));
    RETURN_IF_ERROR(greet(sockets[index], rank, names.size(), deadline));
  }
  RETURN_IF_ERROR(accept_higher(listener, rank, deadline, sockets));
  RETURN_IF_ERROR(hear_lower(rank, deadline, sockets));
  return sockets;
}

}  // namespace evermoe
