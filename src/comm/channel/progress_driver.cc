#include "comm/channel/progress_driver.h"

#include <sys/eventfd.h>
#include <unistd.h>

namespace evermoe {

absl::Status ProgressDriver::start() {
  wake_up_ = FileDescriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  return wake_up_ ? absl::OkStatus() : system_error("eventfd");
}

void ProgressDriver::clear_wake_up() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(wake_up_.get(), &count, sizeof(count));
}

void ProgressDriver::follow(const PendingOperation& operation, const Deadline& deadline,
                            CondVar& sleeper, MutexLock& lock) {
  followers_.push_back(&sleeper);
  sleeper.wait_for(lock, deadline.left(),
                   [&] { return operation.finished || leading_for_ == nullptr; });
  std::erase(followers_, &sleeper);
}

void ProgressDriver::hand_over() {
  if (leading_for_ == nullptr && !followers_.empty()) followers_.front()->notify_one();
}

void ProgressDriver::wake_finished_leader() {
  if (leading_for_ != nullptr && leading_for_->finished) wake_leader();
}

void ProgressDriver::wake_leader() {
  if (leading_for_ == nullptr) return;
  const uint64_t one = 1;
  CHECK(::write(wake_up_.get(), &one, sizeof(one)) == sizeof(one) || errno == EAGAIN);
}

}  // namespace evermoe
