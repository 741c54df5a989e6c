#include "comm/unix/unix_channel.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"

namespace evermoe {
namespace {

constexpr uint64_t kWakeUp = ~uint64_t{0};  // epoll data of the event descriptor
constexpr int kEventsMax = 64;

// Epoll data of a connection. The number makes events of a former process, which a leader may have
// collected just before it was replaced, miss the new one.
uint64_t key_of(const UnixConnection& connection) {
  return uint64_t{connection.number()} << 32 | static_cast<uint32_t>(connection.peer().value);
}

}  // namespace

UnixChannel::UnixChannel(Rank rank, int size, Traffic traffic, ProgressThread& progress, Want want)
    : Channel(rank, size, traffic, progress),
      want_(std::move(want)),
      state_{revocations_, send_waiters_, service_messages_ ? &*service_messages_ : nullptr, {}},
      places_(static_cast<size_t>(size)) {
  for (size_t i = 0; i < places_.size(); ++i) {
    places_[i].empty =
        PeerLost(Rank(static_cast<int32_t>(i)), absl::StrCat("rank ", i, " has not been named"));
  }
}

absl::Status UnixChannel::start() {
  epoll_ = FileDescriptor(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return system_error("epoll_create");
  const MutexLock lock(mutex_);
  RETURN_IF_ERROR(progress_driver_.start());
  epoll_event event{EPOLLIN, {.u64 = kWakeUp}};
  const bool added =
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, progress_driver_.wake_up_fd(), &event) == 0;
  return added ? absl::OkStatus() : system_error("epoll_ctl");
}

UnixChannel::Place& UnixChannel::place(Rank rank) {
  CHECK(rank.value >= 0 && rank.value < static_cast<int32_t>(places_.size()))
      << "rank " << rank << " of " << places_.size();
  return places_[static_cast<size_t>(rank.value)];
}

void UnixChannel::name_process(Rank rank) {
  const MutexLock lock(mutex_);
  place(rank).empty = absl::OkStatus();
}

absl::Status UnixChannel::install(Rank peer, FileDescriptor socket, int buffer_bytes) {
  const MutexLock lock(mutex_);
  if (closed_) return Cancelled("the transport is closed");
  if (buffer_bytes > 0) {
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof(buffer_bytes));
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof(buffer_bytes));
  }
  auto connection =
      std::make_unique<UnixConnection>(peer, std::move(socket), connection_count_++, state_);
  epoll_event event{EPOLLIN, {.u64 = key_of(*connection)}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, connection->fd(), &event) != 0)
    return system_error("epoll_ctl");
  connection->armed_events = EPOLLIN;
  place(peer).connection = std::move(connection);
  on_connected(peer);
  return absl::OkStatus();
}

void UnixChannel::drop(Rank peer, const absl::Status& reason) {
  Place& left = place(peer);
  left.empty = reason;
  if (!left.connection) return;
  left.connection->fail(reason);
  left.connection.reset();
}

absl::StatusOr<bool> UnixChannel::is_connected(Rank peer) {
  const Place& asked = place(peer);
  if (asked.connection) return true;
  RETURN_IF_ERROR(asked.empty);
  return false;
}

void UnixChannel::begin(PendingOperation& operation) {
  const Place& peer = place(operation.peer);
  if (operation.kind == PendingOperation::Kind::kSend) {
    peer.connection->start_send(&operation);
  } else {
    peer.connection->start_receive(&operation);
  }
  update_interest(*peer.connection, false);
}

void UnixChannel::withdraw(PendingOperation& operation) {
  place(operation.peer).connection->withdraw(&operation);
}

void UnixChannel::on_room_for_service(Rank from) {
  UnixConnection* const sender = place(from).connection.get();
  if (sender == nullptr) return;
  sender->reconsider_hold();
  update_interest(*sender, false);
  progress_driver_.wake_finished_leader();
}

// Every message has to be read now: its receiver may be waiting for us.
void UnixChannel::on_send_waiter() {
  const std::vector<UnixConnection*> held(state_.held.begin(), state_.held.end());
  for (UnixConnection* const connection : held) {
    connection->reconsider_hold();
    update_interest(*connection, false);
  }
}

bool UnixChannel::work(const Deadline& deadline) {
  std::array<epoll_event, kEventsMax> events;
  mutex_.unlock();
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsMax, deadline.left_ms());
  mutex_.lock();
  if (count > 0) handle({events.data(), static_cast<size_t>(count)});
  return !deadline.passed();  // also when others keep us busy
}

void UnixChannel::drive() {
  std::array<epoll_event, kEventsMax> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsMax, 0);
  if (count > 0) handle({events.data(), static_cast<size_t>(count)});
}

ProgressThread::Next UnixChannel::work_unattended() {
  drive();
  return {.event_fd = epoll_.get()};
}

UnixConnection* UnixChannel::find(uint64_t key) {
  UnixConnection* const connection =
      place(Rank(static_cast<int32_t>(key & 0xFFFFFFFF))).connection.get();
  return connection != nullptr && key_of(*connection) == key && !connection->is_lost() ? connection
                                                                                       : nullptr;
}

void UnixChannel::handle(std::span<const epoll_event> events) {
  for (const epoll_event& event : events) {
    if (event.data.u64 == kWakeUp) {
      progress_driver_.clear_wake_up();
      continue;
    }
    UnixConnection* const connection = find(event.data.u64);
    if (connection == nullptr) continue;
    if (event.events & EPOLLOUT) connection->on_writable();
    if (event.events & (EPOLLHUP | EPOLLERR)) {
      connection->on_hang_up();
    } else if (event.events & EPOLLIN) {
      connection->on_readable();
    }
    update_interest(*connection, true);
  }
}

// Reading is disarmed only when epoll has just reported something unread: most holds end before.
void UnixChannel::update_interest(UnixConnection& connection, bool disarm_reading) {
  if (connection.is_lost()) return;
  uint32_t wanted = connection.wants_write() ? uint32_t{EPOLLOUT} : 0;
  if (connection.wants_read() || (!disarm_reading && (connection.armed_events & EPOLLIN)))
    wanted |= EPOLLIN;
  if (wanted == connection.armed_events) return;
  epoll_event event{wanted, {.u64 = key_of(connection)}};
  CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.fd(), &event) == 0);
  connection.armed_events = wanted;
}

void UnixChannel::end_views(GroupRange groups, View view, const absl::Status& reason) {
  for (const Place& peer : places_) {
    if (!peer.connection) continue;
    peer.connection->revoke(groups, view, reason);
    update_interest(*peer.connection, false);
  }
}

void UnixChannel::say_goodbye() {
  const MutexLock lock(mutex_);
  closed_ = true;
  for (const Place& peer : places_) {
    if (peer.connection) peer.connection->say_goodbye();
  }
}

void UnixChannel::finish(const Deadline& deadline) {
  const MutexLock lock(mutex_);
  const absl::Status reason = Cancelled("the transport is closed");
  for (const Place& peer : places_) {
    if (!peer.connection) continue;
    while (peer.connection->wants_write() &&
           wait_for(peer.connection->fd(), POLLOUT, deadline).ok()) {
      peer.connection->on_writable();
    }
    peer.connection->fail(reason);
  }
  end_rest(reason);
}

}  // namespace evermoe
