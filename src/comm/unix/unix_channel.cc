#include "comm/unix/unix_channel.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

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

UnixChannel::UnixChannel(Rank rank, int size, Traffic traffic, ProgressThread& progress)
    : rank_(rank), background_(progress), seats_(static_cast<size_t>(size)) {
  if (traffic == Traffic::kService) state_.service_messages.emplace(size);
  for (size_t i = 0; i < seats_.size(); ++i) {
    seats_[i].empty =
        PeerLost(Rank(static_cast<int32_t>(i)), absl::StrCat("rank ", i, " has not been met"));
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

UnixChannel::Seat& UnixChannel::seat(Rank rank) {
  CHECK(rank.value >= 0 && rank.value < static_cast<int32_t>(seats_.size()))
      << "rank " << rank << " of " << seats_.size();
  return seats_[static_cast<size_t>(rank.value)];
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
  seat(peer).connection = std::move(connection);
  return absl::OkStatus();
}

void UnixChannel::vacate(Rank peer, const absl::Status& reason) {
  const MutexLock lock(mutex_);
  Seat& left = seat(peer);
  left.empty = reason;
  if (!left.connection) return;
  left.connection->fail(reason);
  left.connection.reset();
  progress_driver_.wake_finished_leader();
}

absl::Status UnixChannel::state_of(Rank peer) {
  const MutexLock lock(mutex_);
  if (!progress_driver_.has_leader()) poll_once();
  const Seat& asked = seat(peer);
  return asked.connection ? asked.connection->lost() : asked.empty;
}

absl::Status UnixChannel::refusal(const Tag& tag) const {
  if (closed_) return Cancelled("the transport is closed");
  const absl::Status* const reason = state_.revocations.find(tag);
  return reason != nullptr ? *reason : absl::OkStatus();
}

std::unique_ptr<TransportOperation> UnixChannel::start_send(Rank to, Tag tag,
                                                            std::span<const std::byte> bytes) {
  auto send = std::make_unique<PendingOperation>(PendingOperation::Kind::kSend, to, tag);
  send->source = bytes;
  const MutexLock lock(mutex_);
  const Seat& receiver = seat(to);
  if (absl::Status refused = refusal(tag); !refused.ok()) {
    send->finish(std::move(refused));
  } else if (to == rank_) {
    send_to_self(*send);
  } else if (!receiver.connection) {
    send->finish(receiver.empty);
  } else {
    receiver.connection->start_send(send.get());
    update_interest(*receiver.connection, false);
    background_.add(*send);
  }
  progress_driver_.wake_finished_leader();
  return send;
}

std::unique_ptr<TransportOperation> UnixChannel::start_receive(Rank from, Tag tag,
                                                               std::span<std::byte> into) {
  auto receive = std::make_unique<PendingOperation>(PendingOperation::Kind::kReceive, from, tag);
  receive->target = into;
  const MutexLock lock(mutex_);
  const Seat& sender = seat(from);
  if (absl::Status refused = refusal(tag); !refused.ok()) {
    receive->finish(std::move(refused));
  } else if (from == rank_) {
    from_self_.post(receive.get());
  } else if (!sender.connection) {
    receive->finish(sender.empty);
  } else {
    sender.connection->start_receive(receive.get());
    update_interest(*sender.connection, false);
    background_.add(*receive);
  }
  progress_driver_.wake_finished_leader();
  return receive;
}

void UnixChannel::send_to_self(PendingOperation& send) {
  const auto copy_to = [&](std::byte* target) {
    std::copy(send.source.begin(), send.source.end(), target);
  };
  if (state_.service_messages) {
    ServiceMessage service_message =
        state_.service_messages->expect(rank_, send.tag, send.source.size());
    copy_to(service_message.bytes.get());
    state_.service_messages->put(std::move(service_message));
  } else if (PendingOperation* const receive = from_self_.match(send.tag); receive != nullptr) {
    deliver(send.source, *receive);
  } else {
    auto message = std::make_unique<KeptMessage>(send.tag, send.source.size());
    copy_to(message->bytes.get());
    from_self_.keep(std::move(message));
  }
  send.finish(absl::OkStatus());
}

void UnixChannel::withdraw(PendingOperation& operation) {
  if (operation.peer == rank_) {
    from_self_.withdraw(&operation);
  } else {
    seat(operation.peer).connection->withdraw(&operation);
  }
}

absl::Status UnixChannel::wait(std::unique_ptr<TransportOperation> operation,
                               absl::Duration timeout) {
  auto& pending = static_cast<PendingOperation&>(*operation);
  MutexLock lock(mutex_);
  if (!pending.finished) block(pending, Deadline(timeout), lock);
  if (!pending.finished) {
    withdraw(pending);
    pending.finish(timeout_of(pending, timeout));
  }
  return pending.status;
}

bool UnixChannel::done(TransportOperation& operation) {
  auto& pending = static_cast<PendingOperation&>(operation);
  const MutexLock lock(mutex_);
  if (pending.finished || progress_driver_.has_leader()) return pending.finished;
  count_send_waiter(pending, 1);
  poll_once();
  count_send_waiter(pending, -1);
  return pending.finished;
}

std::optional<ServiceMessage> UnixChannel::take_service_message() {
  std::optional<ServiceMessage> service_message = state_.service_messages->take();
  if (!service_message) return service_message;
  UnixConnection* const sender = seat(service_message->from).connection.get();
  if (sender == nullptr) return service_message;
  sender->reconsider_hold();
  update_interest(*sender, false);
  progress_driver_.wake_finished_leader();
  return service_message;
}

absl::StatusOr<ServiceMessage> UnixChannel::receive_service_message(absl::Duration timeout) {
  const Deadline deadline(timeout);
  PendingOperation arrival(PendingOperation::Kind::kReceive, rank_, Tag{View(0), kServiceGroup});
  MutexLock lock(mutex_);
  std::optional<ServiceMessage> service_message = take_service_message();
  if (!service_message && !closed_ && deadline.passed() && !progress_driver_.has_leader()) {
    poll_once();
    service_message = take_service_message();
  }
  if (service_message || closed_) {
    arrival.finish(absl::OkStatus());
  } else {
    state_.service_messages->wake(&arrival);
    block(arrival, deadline, lock);
    state_.service_messages->wake(nullptr);
    if (!arrival.finished) arrival.finish(no_service_message_within(timeout));
    service_message = take_service_message();
  }
  if (closed_) return Cancelled("the transport is closed");
  RETURN_IF_ERROR(arrival.status);
  return *std::move(service_message);
}

// While a thread waits for a send, every message has to be read: its receiver may be waiting for
// us.
void UnixChannel::count_send_waiter(const PendingOperation& operation, int change) {
  if (operation.kind != PendingOperation::Kind::kSend) return;
  state_.send_waiters += change;
  if (state_.send_waiters == 0 || change < 0) return;
  const std::vector<UnixConnection*> held(state_.held.begin(), state_.held.end());
  for (UnixConnection* const connection : held) {
    connection->reconsider_hold();
    update_interest(*connection, false);
  }
}

void UnixChannel::block(PendingOperation& operation, const Deadline& deadline, MutexLock& lock) {
  background_.somebody_waits();
  count_send_waiter(operation, 1);
  progress_driver_.block(operation, deadline, lock, [this](const Deadline& until) {
    mutex_.assert_held();
    return work(until);
  });
  count_send_waiter(operation, -1);
}

bool UnixChannel::work(const Deadline& deadline) {
  std::array<epoll_event, kEventsMax> events;
  mutex_.unlock();
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsMax, deadline.left_ms());
  mutex_.lock();
  if (count > 0) handle({events.data(), static_cast<size_t>(count)});
  return !deadline.passed();  // also when others keep us busy
}

void UnixChannel::poll_once() {
  std::array<epoll_event, kEventsMax> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsMax, 0);
  if (count > 0) handle({events.data(), static_cast<size_t>(count)});
}

ProgressThread::Next UnixChannel::drive_in_background() {
  const MutexLock lock(mutex_);
  ProgressThread::Next next;
  if (!background_.begins(progress_driver_.has_leader(), next)) return next;
  poll_once();
  return {.event_fd = epoll_.get()};
}

UnixConnection* UnixChannel::find(uint64_t key) {
  UnixConnection* const connection =
      seat(Rank(static_cast<int32_t>(key & 0xFFFFFFFF))).connection.get();
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

void UnixChannel::revoke(GroupRange groups, View view, const absl::Status& reason) {
  const MutexLock lock(mutex_);
  if (!state_.revocations.add(groups, view, reason)) return;
  from_self_.fail_posted(groups, view, reason);
  from_self_.drop_kept(groups, view);
  for (const Seat& peer : seats_) {
    if (!peer.connection) continue;
    peer.connection->revoke(groups, view, reason);
    update_interest(*peer.connection, false);
  }
  progress_driver_.wake_finished_leader();
}

void UnixChannel::say_goodbye() {
  const MutexLock lock(mutex_);
  closed_ = true;
  for (const Seat& peer : seats_) {
    if (peer.connection) peer.connection->say_goodbye();
  }
}

void UnixChannel::finish(const Deadline& deadline) {
  const MutexLock lock(mutex_);
  const absl::Status reason = Cancelled("the transport is closed");
  for (const Seat& peer : seats_) {
    if (!peer.connection) continue;
    while (peer.connection->wants_write() &&
           wait_for(peer.connection->fd(), POLLOUT, deadline).ok()) {
      peer.connection->on_writable();
    }
    peer.connection->fail(reason);
  }
  from_self_.fail_posted(std::nullopt, reason);
  if (state_.service_messages) state_.service_messages->fail(reason);
  progress_driver_.wake_finished_leader();
}

}  // namespace evermoe
