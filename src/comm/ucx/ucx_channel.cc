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

// So long somebody's first message may stand before a process none of whose threads waits here.
// UCX's events do not say whether they are greetings, and to wake for each would cost all others.
constexpr absl::Duration kGreetingPause = absl::Milliseconds(50);

}  // namespace

UcxChannel::UcxChannel(Rank rank, int size, uint64_t own_number, const JobSecret& secret,
                       std::unique_ptr<UcxWorker> worker, Traffic traffic, ProgressThread& progress)
    : Channel(rank, size, traffic, progress),
      worker_(std::move(worker)),
      flights_(*worker_, rank),
      peers_(rank, size, own_number, secret, *worker_, flights_),
      operations_(flights_, peers_) {
  if (service_messages_)
    arriving_service_messages_.emplace(*worker_, flights_, peers_, *service_messages_);
}

absl::Status UcxChannel::start() {
  const MutexLock lock(mutex_);
  return progress_driver_.start();
}

void UcxChannel::sweep() {
  flights_.sweep();
  peers_.sweep();
}

void UcxChannel::name_processes(const std::map<Rank, UcxProcess>& processes) {
  const MutexLock lock(mutex_);
  if (closed_) return;
  for (const auto& [rank, process] : processes) peers_.name_process(rank, process);
  drive();
  progress_driver_.wake_leader();
  background_.tell();
}

int64_t UcxChannel::connections_opened() const {
  const MutexLock lock(mutex_);
  return peers_.opened();
}

void UcxChannel::look_for_greetings(ProgressThread::Next& next) {
  if (!peers_.has_unsettled() || closed_) return;
  if (!progress_driver_.has_leader()) drive();
  next.look_again = std::min(next.look_again, kGreetingPause);
}

absl::StatusOr<bool> UcxChannel::is_connected(Rank rank) {
  const UcxPeers::Place& asked = peers_.place(rank);
  if (asked.peer) return asked.peer->is_connected() || !asked.peer->lost.ok();
  return asked.empty;
}

void UcxChannel::connect(Rank rank) {
  peers_.connect(*peers_.place(rank).peer);
  settle();
  wake_drivers();
}

bool UcxChannel::settle() {
  const std::vector<Rank> settled = peers_.take_settled();
  // Also if one is lost: what it had sent before it left is still delivered, the rest fails.
  for (const Rank rank : settled) {
    if (is_connected(rank).value_or(false)) on_connected(rank);
  }
  return !settled.empty();
}

void UcxChannel::begin(PendingOperation& operation) {
  UcxPeer& peer = *peers_.place(operation.peer).peer;
  if (operation.kind == PendingOperation::Kind::kSend) {
    operations_.start_send(operation, peer);
  } else {
    operations_.start_receive(operation, peer);
  }
  sweep();
  wake_drivers();
}

// Whoever sleeps until UCX has something to do has to look again after every call of UCX.
void UcxChannel::wake_drivers() {
  progress_driver_.wake_leader();
  background_.wake_driver();
}

void UcxChannel::withdraw(PendingOperation& operation) { operations_.let_go(operation); }

// It may let more of the others' service messages in now.
void UcxChannel::on_send_waiter() { progress_driver_.wake_leader(); }

void UcxChannel::on_room_for_service(Rank) {
  if (!arriving_service_messages_->has_left_some()) return;
  arriving_service_messages_->take_arrived(send_waiters_ > 0);
  sweep();
  progress_driver_.wake_leader();
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

ProgressThread::Next UcxChannel::work_unattended() {
  ++vain_calls_;
  drive();
  const auto armed = worker_->arm();
  CHECK_OK(armed.status());
  if (!*armed) return {.look_again = absl::ZeroDuration()};
  if (vain_calls_ > kVainCallsMax) return {.look_again = kPause};  // see work()
  return {.event_fd = worker_->event_fd()};
}

void UcxChannel::drive() { has_driven(); }

bool UcxChannel::has_driven() {
  bool has_moved = false;
  for (bool has_acted = true; has_acted;) {
    has_moved = worker_->progress() || has_moved;
    has_acted = peers_.act_upon_noted();
    has_acted = settle() || has_acted;
    has_moved = has_moved || has_acted;
  }
  if (arriving_service_messages_) arriving_service_messages_->take_arrived(send_waiters_ > 0);
  sweep();
  if (has_moved) vain_calls_ = 0;
  return has_moved;
}

}  // namespace evermoe
