#include "comm/transport/resolve.h"

#include <netdb.h>
#include <sys/socket.h>

#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {

absl::StatusOr<sockaddr_in> resolve(const std::string& host, int port) {
  if (port < 0 || port > 65535) return InvalidInput(absl::StrCat("port ", port, " does not exist"));
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    return InvalidInput(absl::StrCat("host \"", host, "\": ", ::gai_strerror(error)));
  }
  sockaddr_in address{};
  std::memcpy(&address, found->ai_addr, sizeof(address));
  ::freeaddrinfo(found);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

absl::StatusOr<sockaddr_in> resolve(const std::string& host_and_port) {
  const size_t colon = host_and_port.rfind(':');
  int port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(host_and_port.substr(colon + 1), &port)) {
    return InvalidInput(absl::StrCat("\"", host_and_port, "\" is not host:port"));
  }
  return resolve(host_and_port.substr(0, colon), port);
}

}  // namespace evermoe
