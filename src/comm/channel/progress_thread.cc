#include "comm/channel/progress_thread.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace evermoe {
namespace {

// Threads that go from one wait to the next are away for less than this.
constexpr absl::Duration kPauseMin = absl::Milliseconds(2);
// The latest that a channel which nobody waits on any more is noticed.
constexpr absl::Duration kPauseMax = absl::Milliseconds(8);
// So long the next large message is expected: telling the thread costs more than its look.
constexpr int kIdleLooksMax = 8;

// Signals are for the threads that the program has made.
std::thread thread_without_signals(std::function<void()> body) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

absl::Status ProgressThread::start(std::vector<Drive> drives) {
  told_ = FileDescriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!told_) return system_error("eventfd");
  drives_ = std::move(drives);
  const MutexLock lock(stopping_);
  thread_ = thread_without_signals([this] { run(); });
  ::pthread_setname_np(thread_.native_handle(), "comm-progress");
  return absl::OkStatus();
}

void ProgressThread::tell() {
  const uint64_t one = 1;
  CHECK(::write(told_.get(), &one, sizeof(one)) == sizeof(one) || errno == EAGAIN);
}

void ProgressThread::stop() {
  const MutexLock lock(stopping_);
  if (!thread_.joinable()) return;
  stopped_ = true;
  tell();
  thread_.join();
}

void ProgressThread::run() {
  std::vector<pollfd> watched;
  while (!stopped_) {
    watched.assign(1, {told_.get(), POLLIN, 0});
    absl::Duration longest = absl::Hours(1);
    for (const Drive& drive : drives_) {
      const Next next = drive();
      if (next.event_fd >= 0) watched.push_back({next.event_fd, POLLIN, 0});
      longest = std::min(longest, next.look_again);
    }
    const timespec timeout = absl::ToTimespec(longest);
    ::ppoll(watched.data(), watched.size(), &timeout, nullptr);
    uint64_t count = 0;
    if (watched[0].revents != 0) [[maybe_unused]]
      const ssize_t got = ::read(told_.get(), &count, sizeof(count));
  }
}

void BackgroundProgress::add(PendingOperation& operation, bool is_parked) {
  const bool is_large = is_parked || operation.kind == PendingOperation::Kind::kSend ||
                        operation.target.size() >= kLargeMessageBytes;
  if (operation.finished || !is_large) return;
  operation.count_in(large_);
  if (state_ != State::kSleeps) return;
  state_ = State::kLooks;
  pause_ = kPauseMin;
  thread_.tell();
}

bool BackgroundProgress::begins(bool somebody_leads, ProgressThread::Next& next) {
  const bool is_left_alone = !somebody_leads && std::exchange(waits_seen_, waits_) == waits_;
  idle_looks_ = large_ == 0 ? idle_looks_ + 1 : 0;
  if (large_ > 0 && is_left_alone) {
    state_ = State::kDrives;
    pause_ = kPauseMin;
    return true;
  }
  if (state_ == State::kSleeps || idle_looks_ > kIdleLooksMax) {
    state_ = State::kSleeps;
    return false;
  }
  state_ = State::kLooks;
  next.look_again = pause_;
  pause_ = std::min(2 * pause_, kPauseMax);
  return false;
}

}  // namespace evermoe
