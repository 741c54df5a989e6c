// std::mutex and std::condition_variable with clang's thread-safety annotations: what is GUARDED_BY
// a mutex may be touched only where the compiler sees that the mutex is held
// (tests/tidy/thread_safety.py).
//
//   Mutex mutex_;
//   std::deque<Item> items_ ABSL_GUARDED_BY(mutex_);
//   ...
//   const MutexLock lock(mutex_);
//   items_.push_back(item);
//
// Not abseil's Mutex: Debian builds it without ThreadSanitizer's annotations, so races would be
// missed.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

namespace evermoe {

class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  // Tells the analysis that the caller's caller holds the lock, where it cannot see that: a
  // predicate of a wait, a call through a std::function. Checks nothing.
  void assert_held() const ABSL_ASSERT_EXCLUSIVE_LOCK() {}

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

// Holds a mutex as long as it lives; may let go of it in between.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : lock_(mutex.mutex_) {}
  ~MutexLock() ABSL_UNLOCK_FUNCTION() = default;
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void unlock() ABSL_UNLOCK_FUNCTION() { lock_.unlock(); }
  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { lock_.lock(); }

 private:
  friend class CondVar;
  std::unique_lock<std::mutex> lock_;
};

// A condition over what a mutex guards. Predicates are called with the mutex held; a lambda that
// reads guarded fields says so: `[this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return done_; }`.
class CondVar {
 public:
  void notify_one() { changed_.notify_one(); }
  void notify_all() { changed_.notify_all(); }

  void wait(MutexLock& lock) { changed_.wait(lock.lock_); }
  template <typename Predicate>
  void wait(MutexLock& lock, Predicate predicate) {
    while (!predicate()) changed_.wait(lock.lock_);
  }
  // False if the predicate does not hold after `timeout`, which may be infinite.
  template <typename Predicate>
  bool wait_for(MutexLock& lock, absl::Duration timeout, Predicate predicate) {
    // The library adds it to the present time, which must not overflow.
    const absl::Duration bounded = std::clamp(timeout, absl::ZeroDuration(), absl::Hours(24 * 365));
    return changed_.wait_for(lock.lock_, absl::ToChronoNanoseconds(bounded), predicate);
  }

 private:
  std::condition_variable changed_;
};

}  // namespace evermoe
