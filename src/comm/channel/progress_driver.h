// Which of the threads that wait on one transport drives it.
//
// One leads: it does the transport's work and sleeps in the kernel without the mutex. The others
// sleep on condition variables until their operation is finished, or until the leader leaves and
// one of them takes over. A thread that waits alone always leads, so the kernel wakes it directly.
#pragma once

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/mutex.h"
#include "comm/channel/pending_operation.h"
#include "comm/transport/deadline.h"
#include "comm/transport/socket.h"

namespace evermoe {

// Guarded by the channel's mutex, which is held in every call.
class ProgressDriver {
 public:
  // Makes the descriptor that interrupts the leader's sleep.
  absl::Status start();
  int wake_up_fd() const { return wake_up_.get(); }
  void clear_wake_up();

  // Blocks until the operation is finished or the deadline has passed. While this thread leads it
  // calls work(deadline) again and again, which unlocks the mutex while it sleeps, at most until
  // the deadline, and returns false once that has passed. `lock` holds the mutex.
  template <typename Work>
  void block(PendingOperation& operation, const Deadline& deadline, MutexLock& lock, Work work) {
    CondVar sleeper;
    operation.sleeper = &sleeper;
    while (!operation.finished && !deadline.passed()) {
      if (leading_for_ != nullptr) {
        follow(operation, deadline, sleeper, lock);
        continue;
      }
      leading_for_ = &operation;
      while (!operation.finished && work(deadline)) continue;
      leading_for_ = nullptr;
    }
    operation.sleeper = nullptr;
    hand_over();
  }

  bool has_leader() const { return leading_for_ != nullptr; }
  bool leader_is_finished() const { return leading_for_ != nullptr && leading_for_->finished; }

  // To be called after finishing operations outside block(): the leader may sleep for one of them.
  void wake_finished_leader();
  // Interrupts the leader's sleep whatever it waits for.
  void wake_leader();

 private:
  void follow(const PendingOperation& operation, const Deadline& deadline, CondVar& sleeper,
              MutexLock& lock);
  // Whoever leaves sees to it that somebody leads as long as anybody waits.
  void hand_over();

  FileDescriptor wake_up_;
  PendingOperation* leading_for_ = nullptr;
  std::vector<CondVar*> followers_;
};

}  // namespace evermoe
