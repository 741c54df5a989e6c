#include "control/hosting/host_place.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

// "HOST:PORT" or "[HOST]:PORT".
absl::StatusOr<Addresses> resolve(const std::string& address, int flags) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon + 1 == address.size())
    return InvalidInput(absl::StrCat("found '", address, "', allowed: HOST:PORT"));
  std::string host = address.substr(0, colon);
  const std::string port = address.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  addrinfo wanted = {};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = flags;
  addrinfo* found = nullptr;
  const int error =
      ::getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &wanted, &found);
  if (error != 0) return Internal(absl::StrCat(address, ": ", ::gai_strerror(error)));
  return Addresses(found);
}

// 0, or the errno of `act` on a socket for the address.
int with_socket(const addrinfo& one, const std::function<int(int fd)>& act) {
  const int fd = ::socket(one.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return errno;
  const int error = act(fd) == 0 ? 0 : errno;
  ::close(fd);
  return error;
}

int connect_within(int fd, const addrinfo& one, absl::Duration patience) {
  if (::connect(fd, one.ai_addr, one.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return -1;
  pollfd waiting{fd, POLLOUT, 0};
  if (::poll(&waiting, 1, static_cast<int>(absl::ToInt64Milliseconds(patience))) <= 0) return -1;
  int error = 0;
  socklen_t size = sizeof(error);
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return -1;
  errno = error;
  return error == 0 ? 0 : -1;
}

int bind_and_listen(int fd, const addrinfo& one) {
  const int yes = 1;
  if (::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0) return -1;
  if (::bind(fd, one.ai_addr, one.ai_addrlen) != 0) return -1;
  return ::listen(fd, 1);
}

}  // namespace

bool is_answered(const std::string& address, absl::Duration patience) {
  const absl::StatusOr<Addresses> found = resolve(address, 0);
  if (!found.ok()) return false;
  for (const addrinfo* one = found->get(); one != nullptr; one = one->ai_next) {
    if (with_socket(*one, [&](int fd) { return connect_within(fd, *one, patience); }) == 0)
      return true;
  }
  return false;
}

absl::Status check_can_listen(const std::string& address) {
  ASSIGN_OR_RETURN(const Addresses found, resolve(address, AI_PASSIVE));
  int error = EADDRNOTAVAIL;
  for (const addrinfo* one = found.get(); one != nullptr && error != 0; one = one->ai_next)
    error = with_socket(*one, [&](int fd) { return bind_and_listen(fd, *one); });
  if (error == 0) return absl::OkStatus();
  return Internal(absl::StrCat(address, ": ", std::strerror(error)));
}

}  // namespace evermoe
