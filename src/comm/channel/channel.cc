#include "comm/channel/channel.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace evermoe {

Channel::Channel(Rank rank, int size, Traffic traffic, ProgressThread& progress)
    : rank_(rank), background_(progress) {
  if (traffic == Traffic::kServiceMessages) service_messages_.emplace(size);
}

absl::Status Channel::refusal(const Tag& tag) const {
  if (closed_) return Cancelled("the transport is closed");
  const absl::Status* const reason = revocations_.find(tag);
  return reason != nullptr ? *reason : absl::OkStatus();
}

std::unique_ptr<TransportOperation> Channel::start_send(Rank to, Tag tag,
                                                        std::span<const std::byte> bytes) {
  auto send = std::make_unique<PendingOperation>(PendingOperation::Kind::kSend, to, tag);
  send->source = bytes;
  start(*send);
  return send;
}

std::unique_ptr<TransportOperation> Channel::start_receive(Rank from, Tag tag,
                                                           std::span<std::byte> into) {
  auto receive = std::make_unique<PendingOperation>(PendingOperation::Kind::kReceive, from, tag);
  receive->target = into;
  start(*receive);
  return receive;
}

void Channel::start(PendingOperation& operation) {
  const MutexLock lock(mutex_);
  if (absl::Status refused = refusal(operation.tag); !refused.ok()) {
    operation.finish(std::move(refused));
  } else if (operation.peer == rank_) {
    exchange_with_self(operation);
  } else {
    if (operation.kind == PendingOperation::Kind::kSend) operation.count_in(sends_under_way_);
    const bool is_parked = begin_or_park(operation);
    background_.add(operation, is_parked);
  }
  progress_driver_.wake_finished_leader();
}

// True if it waits for a connection.
bool Channel::begin_or_park(PendingOperation& operation) {
  const absl::StatusOr<bool> connected = is_connected(operation.peer);
  if (!connected.ok()) {
    operation.finish(connected.status());
  } else if (*connected) {
    begin(operation);
  } else {
    parked_.add(&operation);
    connect(operation.peer);
  }
  return connected.ok() && !*connected;
}

void Channel::on_connected(Rank rank) {
  for (Fifo<PendingOperation> parked = parked_.take(rank); !parked.empty();) begin(*parked.pop());
  progress_driver_.wake_finished_leader();
}

void Channel::exchange_with_self(PendingOperation& operation) {
  if (operation.kind == PendingOperation::Kind::kReceive) return from_self_.post(&operation);
  send_to_self(operation);
  operation.finish(absl::OkStatus());
}

void Channel::send_to_self(PendingOperation& send) {
  if (service_messages_) {
    ServiceMessage service_message = service_messages_->expect(rank_, send.tag, send.source.size());
    std::copy(send.source.begin(), send.source.end(), service_message.bytes.get());
    service_messages_->put(std::move(service_message));
  } else if (PendingOperation* const receive = from_self_.match(send.tag); receive != nullptr) {
    deliver(send.source, *receive);
  } else {
    auto message = std::make_unique<KeptMessage>(send.tag, send.source.size());
    std::copy(send.source.begin(), send.source.end(), message->bytes.get());
    from_self_.keep(std::move(message));
  }
}

absl::Status Channel::wait(std::unique_ptr<TransportOperation> operation, absl::Duration timeout) {
  auto& pending = static_cast<PendingOperation&>(*operation);
  MutexLock lock(mutex_);
  if (!pending.finished) block(pending, Deadline(timeout), lock);
  if (!pending.finished) {
    if (pending.peer == rank_) {
      from_self_.withdraw(&pending);
    } else if (!parked_.withdraw(&pending)) {
      withdraw(pending);
    }
    pending.finish(timeout_of(pending, timeout));
  }
  return pending.status;
}

bool Channel::done(TransportOperation& operation) {
  auto& pending = static_cast<PendingOperation&>(operation);
  const MutexLock lock(mutex_);
  if (pending.finished || progress_driver_.has_leader()) return pending.finished;
  count_send_waiter(pending, 1);
  drive();
  count_send_waiter(pending, -1);
  return pending.finished;
}

void Channel::count_send_waiter(const PendingOperation& operation, int change) {
  if (operation.kind != PendingOperation::Kind::kSend) return;
  send_waiters_ += change;
  if (change > 0) on_send_waiter();
}

void Channel::block(PendingOperation& operation, const Deadline& deadline, MutexLock& lock) {
  background_.somebody_waits();
  count_send_waiter(operation, 1);
  progress_driver_.block(operation, deadline, lock, [this](const Deadline& until) {
    mutex_.assert_held();
    return work(until);
  });
  count_send_waiter(operation, -1);
}

std::optional<ServiceMessage> Channel::take_service_message() {
  std::optional<ServiceMessage> service_message = service_messages_->take();
  if (service_message && service_message->from != rank_) on_room_for_service(service_message->from);
  return service_message;
}

absl::StatusOr<ServiceMessage> Channel::receive_service_message(absl::Duration timeout) {
  const Deadline deadline(timeout);
  PendingOperation arrival(PendingOperation::Kind::kReceive, rank_, Tag{View(0), kServiceGroup});
  MutexLock lock(mutex_);
  std::optional<ServiceMessage> service_message = take_service_message();
  if (!service_message && !closed_ && deadline.passed() && !progress_driver_.has_leader()) {
    drive();
    service_message = take_service_message();
  }
  if (service_message || closed_) {
    arrival.finish(absl::OkStatus());
  } else {
    service_messages_->wake(&arrival);
    block(arrival, deadline, lock);
    service_messages_->wake(nullptr);
    if (!arrival.finished) arrival.finish(no_service_message_within(timeout));
    service_message = take_service_message();
  }
  if (closed_) return Cancelled("the transport is closed");
  RETURN_IF_ERROR(arrival.status);
  return *std::move(service_message);
}

void Channel::revoke(GroupRange groups, View view, const absl::Status& reason) {
  const MutexLock lock(mutex_);
  if (!revocations_.add(groups, view, reason)) return;
  from_self_.fail_posted(groups, view, reason);
  from_self_.drop_kept(groups, view);
  parked_.revoke(groups, view, reason);
  end_views(groups, view, reason);
  progress_driver_.wake_finished_leader();
}

void Channel::vacate(Rank rank, const absl::Status& reason) {
  const MutexLock lock(mutex_);
  parked_.fail(rank, reason);
  drop(rank, reason);
  progress_driver_.wake_finished_leader();
}

bool Channel::has_connection(Rank rank) {
  const MutexLock lock(mutex_);
  return is_connected(rank).value_or(false);
}

void Channel::ask_for_connection(Rank rank) {
  const MutexLock lock(mutex_);
  if (closed_ || rank == rank_ || is_connected(rank).value_or(true)) return;
  connect(rank);
}

ProgressThread::Next Channel::drive_in_background() {
  const MutexLock lock(mutex_);
  ProgressThread::Next next;
  if (background_.begins(progress_driver_.has_leader(), next)) return work_unattended();
  look_for_greetings(next);
  return next;
}

void Channel::end_rest(const absl::Status& reason) {
  from_self_.fail_posted(std::nullopt, reason);
  parked_.fail_all(reason);
  if (service_messages_) service_messages_->fail(reason);
  progress_driver_.wake_finished_leader();
}

}  // namespace evermoe
