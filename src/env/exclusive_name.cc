#include "env/exclusive_name.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/check.h"

namespace evermoe {

// An abstract socket, on which nobody listens.
std::optional<ExclusiveName> ExclusiveName::take(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  CHECK(name.size() < sizeof(address.sun_path)) << name;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  ExclusiveName taken(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  CHECK(taken.socket_ >= 0) << "socket(AF_UNIX): " << std::strerror(errno);
  if (::bind(taken.socket_, reinterpret_cast<const sockaddr*>(&address), size) == 0) return taken;
  CHECK(errno == EADDRINUSE) << "bind to the name " << name << ": " << std::strerror(errno);
  return std::nullopt;
}

ExclusiveName::~ExclusiveName() {
  if (socket_ >= 0) ::close(socket_);
}

}  // namespace evermoe
