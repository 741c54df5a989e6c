#include "control/wire/control_door.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "env/clock.h"

namespace evermoe {
namespace {

constexpr absl::Duration kAcceptPause = absl::Milliseconds(100);
constexpr absl::Duration kDoorSleepMax = absl::Seconds(1);

struct NetworkPlace {
  std::string host;
  std::string port;
};

absl::StatusOr<NetworkPlace> place_in(const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port) ||
      port < 0 || port > 65535)
    return InvalidInput(absl::StrCat(address, " is not HOST:PORT"));
  std::string host = address.substr(0, colon);
  if (host.size() > 1 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  return NetworkPlace{host, absl::StrCat(port)};
}

int port_of(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

void set_port(sockaddr* address, int port) {
  if (address->sa_family == AF_INET6)
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = htons(static_cast<uint16_t>(port));
  else
    reinterpret_cast<sockaddr_in*>(address)->sin_port = htons(static_cast<uint16_t>(port));
}

// The machine, and the name that gRPC gives to the connection.
struct Peer {
  std::string source;
  std::string name;
};

Peer peer_of(const FileDescriptor& connection) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getpeername(connection.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  const bool is_6 = address.ss_family == AF_INET6;
  const void* const bytes =
      is_6 ? static_cast<const void*>(&reinterpret_cast<sockaddr_in6&>(address).sin6_addr)
           : static_cast<const void*>(&reinterpret_cast<sockaddr_in&>(address).sin_addr);
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(address.ss_family, bytes, text.data(), text.size());
  std::string source = text.data();
  // As gRPC does: an IPv4 address in the clothes of IPv6 is an IPv4 address.
  const bool is_mapped =
      is_6 && IN6_IS_ADDR_V4MAPPED(&reinterpret_cast<sockaddr_in6&>(address).sin6_addr);
  if (is_mapped) source = source.substr(source.rfind(':') + 1);
  const int port = port_of(address);
  if (is_6 && !is_mapped) return {source, absl::StrCat("ipv6:%5B", source, "%5D:", port)};
  return {source, absl::StrCat("ipv4:", source, ":", port)};
}

absl::StatusOr<FileDescriptor> listen_at(const addrinfo& at, int port) {
  FileDescriptor socket(::socket(at.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return system_error("socket");
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (at.ai_family == AF_INET6)
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  sockaddr_storage address{};
  std::memcpy(&address, at.ai_addr, at.ai_addrlen);
  if (port > 0) set_port(reinterpret_cast<sockaddr*>(&address), port);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), at.ai_addrlen) != 0)
    return system_error("bind");
  if (::listen(socket.get(), SOMAXCONN) != 0) return system_error("listen");
  return socket;
}

int own_port(const FileDescriptor& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  CHECK(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  return port_of(address);
}

}  // namespace

ControlDoor::ControlDoor() : wake_up_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  CHECK(static_cast<bool>(wake_up_)) << "no descriptor is left";
}

// A name may have several addresses: all of them are listened at, on one port; those that this
// machine does not have count only if it has none.
absl::StatusOr<std::unique_ptr<ControlDoor>> ControlDoor::open(const std::string& address) {
  ASSIGN_OR_RETURN(const NetworkPlace place, place_in(address));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const char* const host = place.host.empty() ? nullptr : place.host.c_str();
  if (const int error = ::getaddrinfo(host, place.port.c_str(), &hints, &found); error != 0)
    return Internal(absl::StrCat(address, ": ", ::gai_strerror(error)));
  std::unique_ptr<ControlDoor> door(new ControlDoor());
  absl::Status why;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    if (at->ai_family != AF_INET && at->ai_family != AF_INET6) continue;
    absl::StatusOr<FileDescriptor> listener = listen_at(*at, door->port_);
    if (listener.ok()) {
      door->listeners_.push_back(*std::move(listener));
      door->port_ = own_port(door->listeners_.back());
    } else if (why.ok()) {
      why = listener.status();
    }
  }
  ::freeaddrinfo(found);
  if (door->listeners_.empty()) return annotate(why, address);
  return door;
}

ControlDoor::~ControlDoor() { stop(); }

void ControlDoor::stop() {
  {
    const MutexLock lock(mutex_);
    stops_ = true;
  }
  (void)!::eventfd_write(wake_up_.get(), 1);
  if (thread_.joinable()) thread_.join();
  listeners_.clear();
}

void ControlDoor::start(std::function<void(int connection)> take) {
  take_ = std::move(take);
  thread_ = std::thread([this] { run(); });
}

void ControlDoor::on_proven(const std::string& peer) {
  const MutexLock lock(mutex_);
  const auto found = by_peer_.find(peer);
  if (found == by_peer_.end()) return;
  const bool was_full = unproven_.is_full();
  forget(connections_.find(found->second));
  if (was_full) (void)!::eventfd_write(wake_up_.get(), 1);  // there is room for the next one
}

void ControlDoor::forget(std::map<UnprovenConnections::Number, Connection>::iterator connection) {
  unproven_.remove(connection->first);
  const auto name = by_peer_.find(connection->second.peer);
  if (name != by_peer_.end() && name->second == connection->first) by_peer_.erase(name);
  connections_.erase(connection);
}

void ControlDoor::run() {
  while (true) {
    std::vector<pollfd> watched{{wake_up_.get(), POLLIN, 0}};
    std::vector<UnprovenConnections::Number> numbers;
    absl::Duration deadline;
    bool is_full = false;
    {
      const MutexLock lock(mutex_);
      if (stops_) return;
      is_full = unproven_.is_full();
      deadline = unproven_.next_deadline();
      for (const auto& [number, connection] : connections_) {
        watched.push_back({connection.descriptor.get(), POLLRDHUP, 0});
        numbers.push_back(number);
      }
    }
    const absl::Duration now = real_clock().now();
    const bool accepts = now >= pause_until_;
    if (!accepts) deadline = std::min(deadline, pause_until_);
    for (const FileDescriptor& listener : listeners_)
      watched.push_back({listener.get(), static_cast<short>(accepts && !is_full ? POLLIN : 0), 0});
    const absl::Duration left = std::clamp(deadline - now, absl::ZeroDuration(), kDoorSleepMax);
    ::poll(watched.data(), watched.size(),
           static_cast<int>(absl::ToInt64Milliseconds(left + absl::Nanoseconds(999'999))));
    eventfd_t count = 0;
    (void)!::eventfd_read(wake_up_.get(), &count);
    std::vector<UnprovenConnections::Number> ended;
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (watched[i + 1].revents != 0) ended.push_back(numbers[i]);
    }
    forget_ended(ended);
    for (size_t i = 0; i < listeners_.size(); ++i) {
      if ((watched[numbers.size() + 1 + i].revents & POLLIN) != 0) accept_from(listeners_[i]);
    }
    cut_overdue();
  }
}

void ControlDoor::accept_from(const FileDescriptor& listener) {
  while (true) {
    {
      const MutexLock lock(mutex_);
      if (stops_ || unproven_.is_full()) return;
    }
    FileDescriptor connection(
        ::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!connection) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      // Who calls waits in the kernel's queue until there are descriptors again.
      if (errno != EAGAIN) pause_until_ = real_clock().now() + kAcceptPause;
      return;
    }
    add(std::move(connection));
  }
}

void ControlDoor::add(FileDescriptor connection) {
  const int on = 1;
  ::setsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const Peer peer = peer_of(connection);
  const int second = ::fcntl(connection.get(), F_DUPFD_CLOEXEC, 0);
  if (peer.name.empty() || second < 0) return;  // gone already, or nothing is left
  {
    const MutexLock lock(mutex_);
    const UnprovenConnections::Number number = ++last_;
    unproven_.add(number, peer.source, real_clock().now());
    connections_.emplace(number, Connection{FileDescriptor(second), peer.name});
    by_peer_[peer.name] = number;
  }
  take_(connection.release());
}

void ControlDoor::cut_overdue() {
  const MutexLock lock(mutex_);
  while (const auto number = unproven_.take_overdue(real_clock().now())) {
    const auto found = connections_.find(*number);
    ::shutdown(found->second.descriptor.get(), SHUT_RDWR);
    refuse(found->second.peer, "it was silent for too long, or one of too many");
    forget(found);
  }
}

void ControlDoor::forget_ended(const std::vector<UnprovenConnections::Number>& ended) {
  const MutexLock lock(mutex_);
  for (const UnprovenConnections::Number number : ended) {
    const auto found = connections_.find(number);
    if (found == connections_.end()) continue;  // it has proven itself meanwhile
    refuse(found->second.peer, "the connection ended before");
    forget(found);
  }
}

void ControlDoor::refuse(const std::string& peer, const char* why) {
  ++refused_;
  const absl::Duration now = real_clock().now();
  if (now < say_at_) return;
  say_at_ = now + kSayAgain;
  log_warning(absl::StrCat("refused ", refused_, refused_ == 1 ? " connection" : " connections",
                           " that did not prove to belong to the job; the newest is from ", peer,
                           ": ", why));
  refused_ = 0;
}

}  // namespace evermoe
