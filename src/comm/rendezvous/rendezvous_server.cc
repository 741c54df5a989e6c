#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <list>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/rendezvous/rendezvous.h"
#include "comm/rendezvous/rendezvous_protocol.h"
#include "comm/transport/resolve.h"
#include "comm/transport/socket.h"

namespace evermoe {
namespace {

// A connection that has said nothing for so long is no member.
constexpr absl::Duration kSilentMax = absl::Seconds(10);
// Connections beyond the members': probes of monitors, members that try again.
constexpr size_t kSpareConnectionsMax = 64;
// How often silent connections are looked for.
constexpr int kTickMs = 1000;
constexpr size_t kReadBytes = 16 << 10;

struct Member {
  explicit Member(FileDescriptor s) : socket(std::move(s)), silent_until(kSilentMax) {}
  FileDescriptor socket;
  Deadline silent_until;
  int rank = -1;  // once it has joined
  std::string received;
  std::string to_send;
  bool closing = false;  // once to_send is out
};

// All state belongs to the one thread; the destructor reaches it through an event descriptor.
class Server final : public RendezvousServer {
 public:
  Server(FileDescriptor listener, FileDescriptor stop, int port, int world_size)
      : listener_(std::move(listener)),
        stop_(std::move(stop)),
        port_(port),
        joins_(static_cast<size_t>(world_size)),
        thread_([this] { serve(); }) {}

  ~Server() override {
    const uint64_t one = 1;
    CHECK(::write(stop_.get(), &one, sizeof(one)) == sizeof(one));
    thread_.join();
  }

  int port() const override { return port_; }

 private:
  void serve();
  void accept_one();
  void read(Member& member);
  void write(Member& member);
  void join(Member& member, const std::string& body);
  absl::Status admit(const JoinMessage& join) const;
  void refuse(Member& member, const std::string& reason);
  void finish_if_complete();
  void announce_missing();
  void drop_finished();

  const FileDescriptor listener_;
  const FileDescriptor stop_;
  const int port_;
  std::list<Member> members_;
  std::vector<std::optional<JoinMessage>> joins_;  // by rank
  bool complete_ = false;
  std::thread thread_;  // last: uses all of the above
};

void Server::serve() {
  while (true) {
    std::vector<pollfd> watched{{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const Member& member : members_) {
      watched.push_back({member.socket.get(),
                         static_cast<short>(POLLIN | (member.to_send.empty() ? 0 : POLLOUT)), 0});
    }
    if (::poll(watched.data(), watched.size(), kTickMs) < 0 && errno != EINTR) {
      return log_error(system_error("rendezvous: poll").ToString());
    }
    if (watched[0].revents != 0) return;
    size_t at = 2;
    for (Member& member : members_) {
      const short events = watched[at++].revents;
      if (events & (POLLIN | POLLHUP | POLLERR)) read(member);
    }
    if (watched[1].revents != 0) accept_one();
    for (Member& member : members_) write(member);
    drop_finished();
  }
}

void Server::accept_one() {
  FileDescriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket) return;
  if (members_.size() >= joins_.size() + kSpareConnectionsMax) {
    return log_warning("rendezvous: too many connections, one is refused");
  }
  members_.emplace_back(std::move(socket));
}

void Server::read(Member& member) {
  std::string chunk(kReadBytes, '\0');
  const ssize_t got = ::recv(member.socket.get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    member.to_send.clear();
    member.closing = true;
    return;
  }
  if (member.closing || member.rank >= 0) return;  // a member says one thing only
  member.received.append(chunk, 0, static_cast<size_t>(got));
  if (member.received.size() < kLengthBytes) return;
  const size_t length = decode_length(member.received.data());
  if (length > kJoinBytesMax)
    return refuse(member, absl::StrCat("a join of ", length, " bytes is too long"));
  if (member.received.size() < kLengthBytes + length) return;
  join(member, member.received.substr(kLengthBytes, length));
}

void Server::write(Member& member) {
  if (member.to_send.empty()) return;
  const ssize_t sent = ::send(member.socket.get(), member.to_send.data(), member.to_send.size(),
                              MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0) member.to_send.erase(0, static_cast<size_t>(sent));
  if (sent < 0 && errno != EAGAIN && errno != EINTR) {
    member.to_send.clear();
    member.closing = true;
  }
}

void Server::refuse(Member& member, const std::string& reason) {
  ReplyMessage reply;
  reply.is_result = true;
  reply.refusal = reason;
  member.to_send += encode(reply);
  member.closing = true;
}

absl::Status Server::admit(const JoinMessage& join) const {
  if (join.world_size != static_cast<int>(joins_.size())) {
    return InvalidInput(absl::StrCat("rank ", join.rank, " believes in ", join.world_size,
                                     " ranks, the rendezvous is for ", joins_.size()));
  }
  if (join.rank < 0 || join.rank >= join.world_size) {
    return InvalidInput(
        absl::StrCat("rank ", join.rank, " of ", join.world_size, " does not exist"));
  }
  if (complete_) return InvalidInput("this rendezvous is complete already");
  if (joins_[static_cast<size_t>(join.rank)]) {
    return InvalidInput(
        absl::StrCat("rank ", join.rank, " has come twice, the second time from ", join.address));
  }
  return absl::OkStatus();
}

void Server::join(Member& member, const std::string& body) {
  const auto join = decode_join(body);
  if (!join.ok()) return refuse(member, std::string(join.status().message()));
  if (const absl::Status status = admit(*join); !status.ok()) {
    log_warning(absl::StrCat("rendezvous: ", status.message()));
    return refuse(member, std::string(status.message()));
  }
  member.rank = join->rank;
  joins_[static_cast<size_t>(join->rank)] = *join;
  announce_missing();
  finish_if_complete();
}

void Server::announce_missing() {
  ReplyMessage reply;
  for (size_t rank = 0; rank < joins_.size(); ++rank) {
    if (!joins_[rank]) reply.missing.push_back(static_cast<int>(rank));
  }
  if (reply.missing.empty()) return;
  for (Member& member : members_) {
    if (member.rank >= 0 && !member.closing) member.to_send += encode(reply);
  }
}

void Server::finish_if_complete() {
  ReplyMessage reply;
  std::vector<std::string> fingerprints;
  for (const auto& join : joins_) {
    if (!join) return;
    reply.addresses.push_back(join->address);
    fingerprints.push_back(join->fingerprint);
  }
  complete_ = true;
  reply.is_result = true;
  if (const absl::Status same = compare_fingerprints(fingerprints); !same.ok()) {
    reply.addresses.clear();
    reply.refusal = std::string(same.message());
  }
  for (Member& member : members_) {
    if (member.rank < 0 || member.closing) continue;
    member.to_send += encode(reply);
    member.closing = true;
  }
}

// A member that goes away before everybody has come may come again.
void Server::drop_finished() {
  for (auto at = members_.begin(); at != members_.end();) {
    const bool silent = at->rank < 0 && at->silent_until.passed();
    if (!(at->closing && at->to_send.empty()) && !silent) {
      ++at;
      continue;
    }
    const int rank = at->rank;
    at = members_.erase(at);
    if (rank < 0 || complete_) continue;
    joins_[static_cast<size_t>(rank)].reset();
    announce_missing();
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<RendezvousServer>> RendezvousServer::start(const std::string& host,
                                                                          int port,
                                                                          int world_size) {
  if (world_size < 1) return InvalidInput(absl::StrCat("a job of ", world_size, " ranks"));
  ASSIGN_OR_RETURN(sockaddr_in address, resolve(host, port));
  FileDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener) return system_error("socket");
  const int on = 1;
  ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  socklen_t size = sizeof(address);
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::listen(listener.get(), SOMAXCONN) != 0 ||
      ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return system_error(absl::StrCat("listen on ", host, ":", port));
  }
  FileDescriptor stop(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!stop) return system_error("eventfd");
  return std::make_unique<Server>(std::move(listener), std::move(stop), ntohs(address.sin_port),
                                  world_size);
}

}  // namespace evermoe
