#include "comm/ucx/ucx_channel.h"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <array>

#include "base/error.h"

namespace evermoe {
namespace {

// UCX may report events this often without having anything to do; then the channel looks for them
// itself, once per pause.
constexpr int kVainCallsMax = 8;
constexpr absl::Duration kPause = absl::Microseconds(500);

}  // namespace

UcxChannel::UcxChannel(Rank rank, int size, uint64_t own_number, std::unique_ptr<UcxWorker> worker,
                       Traffic traffic, ProgressThread& progress)
    : rank_(rank),
      worker_(std::move(worker)),
      background_(progress),
      flights_(*worker_, rank, own_number),
      peers_(rank, size, own_number, *worker_, flights_),
      operations_(flights_, peers_) {
  if (traffic == Traffic::kService) service_messages_.emplace(*worker_, flights_, peers_);
}

absl::Status UcxChannel::start() {
  const MutexLock lock(mutex_);
  return progress_driver_.start();
}

void UcxChannel::sweep() {
  flights_.sweep();
  peers_.sweep();
}

// Ok if operations of this tag are possible.
absl::Status UcxChannel::refusal(const Tag& tag) const {
  if (closed_) return Cancelled("the transport is closed");
  const absl::Status* const reason = revocations_.find(tag);
  return reason != nullptr ? *reason : absl::OkStatus();
}

std::unique_ptr<TransportOperation> UcxChannel::start_send(Rank to, Tag tag,
                                                           std::span<const std::byte> bytes) {
  auto send = std::make_unique<PendingOperation>(PendingOperation::Kind::kSend, to, tag);
  send->source = bytes;
  const MutexLock lock(mutex_);
  const UcxPeers::Seat& receiver = peers_.seat(to);
  if (absl::Status refused = refusal(tag); !refused.ok()) {
    send->finish(std::move(refused));
  } else if (to == rank_) {
    send_to_self(*send);
  } else if (!receiver.peer || !receiver.peer->has_greeted) {
    send->finish(receiver.empty);
  } else {
    operations_.start_send(*send, *receiver.peer);
    sweep();
    see_to(*send);
  }
  return send;
}

std::unique_ptr<TransportOperation> UcxChannel::start_receive(Rank from, Tag tag,
                                                              std::span<std::byte> into) {
  auto receive = std::make_unique<PendingOperation>(PendingOperation::Kind::kReceive, from, tag);
  receive->target = into;
  const MutexLock lock(mutex_);
  const UcxPeers::Seat& sender = peers_.seat(from);
  if (absl::Status refused = refusal(tag); !refused.ok()) {
    receive->finish(std::move(refused));
  } else if (from == rank_) {
    from_self_.post(receive.get());
  } else if (!sender.peer || !sender.peer->has_greeted) {
    receive->finish(sender.empty);
  } else {
    operations_.start_receive(*receive, *sender.peer);
    sweep();
    see_to(*receive);
  }
  return receive;
}

// Whoever sleeps until UCX has something to do has to look again after every call of UCX.
void UcxChannel::see_to(PendingOperation& operation) {
  progress_driver_.wake_leader();
  background_.add(operation);
  background_.wake_driver();
}

void UcxChannel::send_to_self(PendingOperation& send) {
  if (service_messages_) {
    service_messages_->put_own(rank_, send.tag, send.source);
  } else if (PendingOperation* const receive = from_self_.match(send.tag); receive != nullptr) {
    deliver(send.source, *receive);
  } else {
    auto message = std::make_unique<KeptMessage>(send.tag, send.source.size());
    std::ranges::copy(send.source, message->bytes.get());
    from_self_.keep(std::move(message));
  }
  send.finish(absl::OkStatus());
  progress_driver_.wake_finished_leader();
}

absl::Status UcxChannel::wait(std::unique_ptr<TransportOperation> operation,
                              absl::Duration timeout) {
  auto& pending = static_cast<PendingOperation&>(*operation);
  MutexLock lock(mutex_);
  if (!pending.finished) block(pending, Deadline(timeout), lock);
  if (!pending.finished) {
    if (pending.peer == rank_) {
      from_self_.withdraw(&pending);
    } else {
      operations_.let_go(pending);
    }
    pending.finish(timeout_of(pending, timeout));
  }
  return pending.status;
}

void UcxChannel::block(PendingOperation& operation, const Deadline& deadline, MutexLock& lock) {
  const int change = operation.kind == PendingOperation::Kind::kSend ? 1 : 0;
  background_.somebody_waits();
  send_waiters_ += change;
  if (send_waiters_ > 0) progress_driver_.wake_leader();
  progress_driver_.block(operation, deadline, lock, [this](const Deadline& until) {
    mutex_.assert_held();
    return work(until);
  });
  send_waiters_ -= change;
}

bool UcxChannel::work(const Deadline& deadline) {
  drive();
  if (progress_driver_.leader_is_finished()) return true;
  const auto armed = worker_->arm();
  CHECK_OK(armed.status());
  // UCX 1.13 reports a connection that a silent process does not answer as writable all the time.
  const bool is_pause = vain_calls_ > kVainCallsMax;
  std::array<pollfd, 2> watched{
      {{progress_driver_.wake_up_fd(), POLLIN, 0}, {worker_->event_fd(), POLLIN, 0}}};
  const absl::Duration longest = !*armed    ? absl::ZeroDuration()
                                 : is_pause ? kPause
                                            : absl::Hours(1);
  const timespec timeout = absl::ToTimespec(std::min(longest, deadline.left()));
  mutex_.unlock();
  const int count = ::ppoll(watched.data(), is_pause ? 1 : 2, &timeout, nullptr);
  if (!*armed) ::sched_yield();
  mutex_.lock();
  if (count > 0 && watched[0].revents != 0) progress_driver_.clear_wake_up();
  if (count > 0 && watched[1].revents != 0) ++vain_calls_;
  return !deadline.passed();
}

ProgressThread::Next UcxChannel::drive_in_background() {
  const MutexLock lock(mutex_);
  ProgressThread::Next next;
  if (!background_.begins(progress_driver_.has_leader(), next)) return next;
  ++vain_calls_;
  drive();
  const auto armed = worker_->arm();
  CHECK_OK(armed.status());
  if (!*armed) return {.look_again = absl::ZeroDuration()};
  if (vain_calls_ > kVainCallsMax) return {.look_again = kPause};  // see work()
  return {.event_fd = worker_->event_fd()};
}

bool UcxChannel::drive() {
  bool has_moved = false;
  for (bool has_acted = true; has_acted;) {
    has_moved = worker_->progress() || has_moved;
    has_acted = peers_.act_upon_noted();
    has_moved = has_moved || has_acted;
  }
  if (service_messages_) service_messages_->take_arrived(send_waiters_ > 0);
  update_meeting();
  sweep();
  if (has_moved) vain_calls_ = 0;
  return has_moved;
}

bool UcxChannel::done(TransportOperation& operation) {
  auto& pending = static_cast<PendingOperation&>(operation);
  const MutexLock lock(mutex_);
  if (!pending.finished && !progress_driver_.has_leader()) drive();
  return pending.finished;
}

std::optional<ServiceMessage> UcxChannel::take_service_message() {
  std::optional<ServiceMessage> service_message = service_messages_->take();
  if (!service_message || !service_messages_->has_left_some()) return service_message;
  service_messages_->take_arrived(send_waiters_ > 0);
  sweep();
  progress_driver_.wake_leader();
  return service_message;
}

absl::StatusOr<ServiceMessage> UcxChannel::receive_service_message(absl::Duration timeout) {
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

absl::Status UcxChannel::greet(Rank rank, const UcxProcess& process) {
  const MutexLock lock(mutex_);
  if (closed_) return Cancelled("the transport is closed");
  const UcxPeer& called = peers_.greet(rank, process);
  drive();
  progress_driver_.wake_leader();
  // Who has met us and left meanwhile has been met.
  return absl::IsCancelled(called.lost) ? absl::OkStatus() : called.lost;
}

absl::Status UcxChannel::outcome_of_meeting() const {
  return closed_ ? Cancelled("the transport is closed") : peers_.outcome_of_meeting();
}

void UcxChannel::update_meeting() {
  if (meeting_ == nullptr || !peers_.take_news()) return;
  if (absl::IsDeadlineExceeded(outcome_of_meeting())) return;
  std::exchange(meeting_, nullptr)->finish(absl::OkStatus());
}

absl::Status UcxChannel::await_greetings(const Deadline& deadline) {
  PendingOperation meeting(PendingOperation::Kind::kReceive, rank_, Tag{View(0), kOwnGroup});
  MutexLock lock(mutex_);
  meeting_ = &meeting;
  peers_.make_news();
  if (!progress_driver_.has_leader()) drive();
  update_meeting();
  if (!meeting.finished) {
    progress_driver_.block(meeting, deadline, lock, [this](const Deadline& until) {
      mutex_.assert_held();
      return work(until);
    });
  }
  meeting_ = nullptr;
  if (!meeting.finished) meeting.finish(absl::OkStatus());
  return outcome_of_meeting();
}

absl::Status UcxChannel::state_of(Rank rank) {
  const MutexLock lock(mutex_);
  if (!progress_driver_.has_leader()) drive();
  const UcxPeers::Seat& asked = peers_.seat(rank);
  return asked.peer ? asked.peer->lost : asked.empty;
}

}  // namespace evermoe
