#include "control/health/loopback_trial.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "comm/transport/socket.h"
#include "env/files.h"

namespace evermoe {
namespace {

// The kernel does all of it at once; a loaded machine may not let this thread run for long.
constexpr absl::Duration kTrialMax = absl::Seconds(20);

using TrialBytes = std::array<std::byte, 1024>;

absl::Status send_and_compare(int from, int to, std::byte first, const Deadline& deadline) {
  TrialBytes sent{}, come{};
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = first ^ static_cast<std::byte>(i);
  RETURN_IF_ERROR(send_all(from, sent, deadline));
  RETURN_IF_ERROR(receive_all(to, come, deadline));
  return sent == come ? absl::OkStatus() : Internal("the bytes received differ from those sent");
}

absl::Status connect_to_itself(int family, const sockaddr* wanted, socklen_t size) {
  const Deadline deadline(kTrialMax);
  const FileDescriptor listener(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const FileDescriptor caller(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener || !caller) return system_error("socket");
  if (::bind(listener.get(), wanted, size) != 0) return system_error("bind");
  if (::listen(listener.get(), 1) != 0) return system_error("listen");
  sockaddr_storage own{};
  socklen_t own_size = sizeof(own);
  if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&own), &own_size) != 0)
    return system_error("getsockname");
  if (::connect(caller.get(), reinterpret_cast<const sockaddr*>(&own), own_size) != 0 &&
      errno != EINPROGRESS)
    return system_error("connect");
  RETURN_IF_ERROR(wait_for(listener.get(), POLLIN, deadline));
  const FileDescriptor callee(
      ::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!callee) return system_error("accept");
  RETURN_IF_ERROR(send_and_compare(caller.get(), callee.get(), std::byte{0x5a}, deadline));
  return send_and_compare(callee.get(), caller.get(), std::byte{0xa5}, deadline);
}

}  // namespace

absl::Status try_tcp_loopback(const std::string& address) {
  sockaddr_in wanted{};
  wanted.sin_family = AF_INET;
  if (::inet_pton(AF_INET, address.c_str(), &wanted.sin_addr) != 1)
    return InvalidInput(absl::StrCat("no address of IPv4: ", address));
  return connect_to_itself(AF_INET, reinterpret_cast<const sockaddr*>(&wanted), sizeof(wanted));
}

absl::Status try_unix_loopback(const std::string& folder) {
  const std::string path = join_path(folder, absl::StrCat("trial-", ::getpid()));
  sockaddr_un wanted{};
  wanted.sun_family = AF_UNIX;
  if (path.size() >= sizeof(wanted.sun_path))
    return InvalidInput(absl::StrCat("too long for the path of a socket: ", path));
  std::copy(path.begin(), path.end(), wanted.sun_path);
  ::unlink(path.c_str());
  const absl::Status status =
      connect_to_itself(AF_UNIX, reinterpret_cast<const sockaddr*>(&wanted), sizeof(wanted));
  ::unlink(path.c_str());
  return status;
}

}  // namespace evermoe
