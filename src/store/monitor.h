// A mutex with the condition that something behind it has changed.
//
// The standard library's, because Debian's abseil is built without the annotations that tell
// ThreadSanitizer about absl::Mutex.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/time/time.h"

namespace evermoe {

class Monitor {
 public:
  // Everything that a Monitor guards is touched while one of these exists. Wakes those who wait when
  // it ends, so that no change is forgotten.
  class Lock {
   public:
    explicit Lock(Monitor& monitor) : monitor_(monitor), lock_(monitor.mutex_) {}
    ~Lock() {
      lock_.unlock();
      monitor_.changed_.notify_all();
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

    // Waits until `condition`; false if it does not hold after `timeout`.
    template <typename Condition>
    bool wait(absl::Duration timeout, Condition condition) {
      // The library adds it to the present time, which must not overflow.
      const absl::Duration bounded = std::clamp(timeout, absl::ZeroDuration(), absl::Hours(24 * 365));
      return monitor_.changed_.wait_for(lock_, absl::ToChronoMilliseconds(bounded), condition);
    }
    // For the body of a thread that its owner ends.
    template <typename Condition>
    void wait(Condition condition) {
      monitor_.changed_.wait(lock_, condition);
    }

   private:
    Monitor& monitor_;
    std::unique_lock<std::mutex> lock_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace evermoe
