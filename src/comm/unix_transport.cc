#include "comm/unix_transport.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "comm/host_address.h"
#include "comm/leadership.h"
#include "comm/unix_connect.h"
#include "comm/unix_connection.h"

namespace evermoe {
namespace {

constexpr uint32_t kWakeUp = ~uint32_t{0};  // epoll data of the event descriptor
constexpr int kEventsMax = 64;

class UnixTransport final : public Transport {
 public:
  UnixTransport(Rank rank, std::vector<FileDescriptor> sockets, const UnixTransportOptions& options);

  // Makes the epoll set; the only part of construction that can fail.
  absl::Status start();

  Rank rank() const override { return rank_; }
  int size() const override { return static_cast<int>(peers_.size()); }
  std::unique_ptr<TransportOperation> start_send(Rank to, Tag tag,
                                                 std::span<const std::byte> bytes) override;
  std::unique_ptr<TransportOperation> start_receive(Rank from, Tag tag,
                                                    std::span<std::byte> into) override;
  absl::Status wait(std::unique_ptr<TransportOperation> operation, absl::Duration timeout) override;
  bool done(TransportOperation& operation) override;
  absl::StatusOr<Letter> receive_letter(absl::Duration timeout) override;
  using Transport::revoke;
  void revoke(GroupRange groups, View view, absl::Status reason) override;
  absl::Status meet(const std::vector<PeerAddress>& table, absl::Duration timeout) override;
  void close() override;

 private:
  using Lock = Leadership::Lock;

  UnixConnection* peer(Rank rank);
  void send_to_self(PendingOperation& send);
  void receive_from_self(PendingOperation& receive);
  void withdraw(PendingOperation& operation);
  void block(PendingOperation& operation, const Deadline& deadline, Lock& lock);
  void count_send_waiter(const PendingOperation& operation, int change);
  void handle(std::span<const epoll_event> events);
  void update_interest(UnixConnection& connection, bool disarm_reading);

  const Rank rank_;
  const UnixTransportOptions options_;
  FileDescriptor epoll_;

  std::mutex mutex_;  // guards everything below
  int send_waiters_ = 0;
  std::vector<std::unique_ptr<UnixConnection>> peers_;  // none at rank_
  Inbox from_self_;
  std::optional<View> revoked_;
  absl::Status revoke_reason_;
  bool closed_ = false;
  Leadership leadership_;
};

UnixTransport::UnixTransport(Rank rank, std::vector<FileDescriptor> sockets,
                             const UnixTransportOptions& options)
    : rank_(rank), options_(options) {
  for (size_t i = 0; i < sockets.size(); ++i) {
    peers_.push_back(sockets[i] ? std::make_unique<UnixConnection>(Rank(static_cast<int32_t>(i)),
                                                                   std::move(sockets[i]), send_waiters_)
                                : nullptr);
  }
}

absl::Status UnixTransport::start() {
  epoll_ = FileDescriptor(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return system_error("epoll_create");
  RETURN_IF_ERROR(leadership_.start());
  epoll_event event{EPOLLIN, {.u32 = kWakeUp}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, leadership_.wake_up_fd(), &event) != 0) {
    return system_error("epoll_ctl");
  }
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (!peers_[i]) continue;
    epoll_event watched{EPOLLIN, {.u32 = static_cast<uint32_t>(i)}};
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, peers_[i]->fd(), &watched) != 0) {
      return system_error("epoll_ctl");
    }
    peers_[i]->armed_events = EPOLLIN;
    const int bytes = options_.socket_buffer_bytes;
    if (bytes == 0) continue;
    ::setsockopt(peers_[i]->fd(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    ::setsockopt(peers_[i]->fd(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
  }
  return absl::OkStatus();
}

UnixConnection* UnixTransport::peer(Rank rank) {
  CHECK(rank.value >= 0 && rank.value < size()) << "rank " << rank << " of " << size();
  return peers_[static_cast<size_t>(rank.value)].get();
}

std::unique_ptr<TransportOperation> UnixTransport::start_send(Rank to, Tag tag,
                                                              std::span<const std::byte> bytes) {
  auto send = std::make_unique<PendingOperation>(PendingOperation::Kind::kSend, to, tag);
  send->source = bytes;
  const Lock lock(mutex_);
  UnixConnection* const connection = peer(to);
  if (closed_) {
    send->finish(Cancelled("the transport is closed"));
  } else if (connection == nullptr) {
    send_to_self(*send);
  } else {
    connection->start_send(send.get());
    update_interest(*connection, false);
    leadership_.wake_finished_leader();
  }
  return send;
}

std::unique_ptr<TransportOperation> UnixTransport::start_receive(Rank from, Tag tag,
                                                                 std::span<std::byte> into) {
  auto receive = std::make_unique<PendingOperation>(PendingOperation::Kind::kReceive, from, tag);
  receive->target = into;
  const Lock lock(mutex_);
  UnixConnection* const connection = peer(from);
  if (closed_) {
    receive->finish(Cancelled("the transport is closed"));
  } else if (connection == nullptr) {
    receive_from_self(*receive);
  } else {
    connection->start_receive(receive.get());
    update_interest(*connection, false);
    leadership_.wake_finished_leader();
  }
  return receive;
}

void UnixTransport::send_to_self(PendingOperation& send) {
  if (revoked_ && send.tag.view <= *revoked_) return send.finish(revoke_reason_);
  if (PendingOperation* const receive = from_self_.match(send.tag); receive != nullptr) {
    deliver(send.source, *receive);
  } else {
    auto message = std::make_unique<KeptMessage>(send.tag, send.source.size());
    std::copy(send.source.begin(), send.source.end(), message->bytes.get());
    from_self_.keep(std::move(message));
  }
  send.finish(absl::OkStatus());
  leadership_.wake_finished_leader();
}

void UnixTransport::receive_from_self(PendingOperation& receive) {
  if (revoked_ && receive.tag.view <= *revoked_) return receive.finish(revoke_reason_);
  from_self_.post(&receive);
}

void UnixTransport::withdraw(PendingOperation& operation) {
  if (UnixConnection* const connection = peer(operation.peer); connection != nullptr) {
    connection->withdraw(&operation);
  } else {
    from_self_.withdraw(&operation);
  }
}

absl::Status UnixTransport::wait(std::unique_ptr<TransportOperation> operation, absl::Duration timeout) {
  auto& pending = static_cast<PendingOperation&>(*operation);
  Lock lock(mutex_);
  if (!pending.finished) block(pending, Deadline(timeout), lock);
  if (!pending.finished) {
    withdraw(pending);
    pending.finish(timeout_of(pending, timeout));
  }
  return pending.status;
}

// While a thread waits for a send, every message has to be read: its receiver may be waiting for us.
void UnixTransport::count_send_waiter(const PendingOperation& operation, int change) {
  if (operation.kind != PendingOperation::Kind::kSend) return;
  send_waiters_ += change;
  if (send_waiters_ == 0 || change < 0) return;
  for (const auto& connection : peers_) {
    if (!connection) continue;
    connection->reconsider_hold();
    update_interest(*connection, false);
  }
}

void UnixTransport::block(PendingOperation& operation, const Deadline& deadline, Lock& lock) {
  count_send_waiter(operation, 1);
  leadership_.block(operation, deadline, lock, [this](const Deadline& until, Lock& held) {
    std::array<epoll_event, kEventsMax> events;
    const int timeout_ms = until.left_ms();
    held.unlock();
    const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsMax, timeout_ms);
    held.lock();
    if (count > 0) handle({events.data(), static_cast<size_t>(count)});
    return !until.passed();  // also when others keep us busy
  });
  count_send_waiter(operation, -1);
}

void UnixTransport::handle(std::span<const epoll_event> events) {
  for (const epoll_event& event : events) {
    if (event.data.u32 == kWakeUp) {
      leadership_.clear_wake_up();
      continue;
    }
    UnixConnection& connection = *peers_[event.data.u32];
    if (connection.is_lost()) continue;
    if (event.events & EPOLLOUT) connection.on_writable();
    if (event.events & (EPOLLHUP | EPOLLERR)) {
      connection.on_hang_up();
    } else if (event.events & EPOLLIN) {
      connection.on_readable();
    }
    update_interest(connection, true);
  }
}

// Reading is disarmed only when epoll has just reported something unread: most holds end before.
void UnixTransport::update_interest(UnixConnection& connection, bool disarm_reading) {
  if (connection.is_lost()) return;
  uint32_t wanted = connection.wants_write() ? uint32_t{EPOLLOUT} : 0;
  if (connection.wants_read() || (!disarm_reading && (connection.armed_events & EPOLLIN))) wanted |= EPOLLIN;
  if (wanted == connection.armed_events) return;
  epoll_event event{wanted, {.u32 = 0}};
  event.data.u32 = static_cast<uint32_t>(connection.peer().value);
  CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.fd(), &event) == 0);
  connection.armed_events = wanted;
}

bool UnixTransport::done(TransportOperation& operation) {
  auto& pending = static_cast<PendingOperation&>(operation);
  const Lock lock(mutex_);
  if (pending.finished || leadership_.has_leader()) return pending.finished;
  count_send_waiter(pending, 1);
  std::array<epoll_event, kEventsMax> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsMax, 0);
  if (count > 0) handle({events.data(), static_cast<size_t>(count)});
  count_send_waiter(pending, -1);
  return pending.finished;
}

absl::StatusOr<Letter> UnixTransport::receive_letter(absl::Duration) { return Unsupported("letters"); }

absl::Status UnixTransport::meet(const std::vector<PeerAddress>&, absl::Duration) { return Unsupported("meet"); }

void UnixTransport::revoke(GroupRange, View view, absl::Status reason) {
  const Lock lock(mutex_);
  if (!revoked_ || *revoked_ < view) {
    revoked_ = view;
    revoke_reason_ = reason;
  }
  from_self_.fail_posted(view, reason);
  from_self_.drop_kept(view);
  for (const auto& connection : peers_) {
    if (!connection) continue;
    connection->revoke(view, reason);
    update_interest(*connection, false);
  }
  leadership_.wake_finished_leader();
}

void UnixTransport::close() {
  const Lock lock(mutex_);
  if (closed_) return;
  closed_ = true;
  const absl::Status reason = Cancelled("the transport is closed");
  for (const auto& connection : peers_) {
    if (connection) connection->say_goodbye();
  }
  const Deadline deadline(options_.close_flush_max);
  for (const auto& connection : peers_) {
    if (!connection) continue;
    while (connection->wants_write() && wait_for(connection->fd(), POLLOUT, deadline).ok()) {
      connection->on_writable();
    }
    connection->fail(reason);
  }
  from_self_.fail_posted(std::nullopt, reason);
  leadership_.wake_finished_leader();
}

class UnixListener final : public TransportListener {
 public:
  UnixListener(ListeningSocket listening, const UnixTransportOptions& options)
      : options_(options),
        socket_(std::move(listening.socket)),
        address_(to_string({"unix", this_machine(), listening.name})) {}

  const std::string& address() const override { return address_; }

  absl::StatusOr<std::unique_ptr<Transport>> open(Rank, int, View) override { return Unsupported("open"); }
  absl::StatusOr<std::unique_ptr<Transport>> connect(Rank rank, const std::vector<std::string>& addresses,
                                                     absl::Duration timeout) override {
    std::vector<std::string> names;
    for (const std::string& text : addresses) {
      ASSIGN_OR_RETURN(const HostAddress address, parse_address(text));
      if (address.kind != "unix" || address.machine != this_machine()) {
        return InvalidInput(absl::StrCat("rank ", names.size(), " at ", text, " is not on this machine"));
      }
      names.push_back(address.detail);
    }
    ASSIGN_OR_RETURN(auto sockets, connect_mesh(socket_, rank, names, Deadline(timeout)));
    socket_.reset();
    auto transport = std::make_unique<UnixTransport>(rank, std::move(sockets), options_);
    RETURN_IF_ERROR(transport->start());
    return transport;
  }

 private:
  const UnixTransportOptions options_;
  FileDescriptor socket_;
  const std::string address_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TransportListener>> listen_unix(const UnixTransportOptions& options) {
  ASSIGN_OR_RETURN(ListeningSocket listening, listen_on_random_name());
  return std::make_unique<UnixListener>(std::move(listening), options);
}

}  // namespace evermoe
