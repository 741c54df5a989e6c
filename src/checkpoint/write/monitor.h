// A mutex with the condition that something behind it has changed.
#pragma once

#include "absl/time/time.h"
#include "base/mutex.h"

namespace evermoe {

class ABSL_LOCKABLE Monitor {
 public:
  // Everything that a Monitor guards is touched while one of these exists. Wakes those who wait
  // when it ends, so that no change is forgotten.
  class ABSL_SCOPED_LOCKABLE Lock {
   public:
    explicit Lock(Monitor& monitor) ABSL_EXCLUSIVE_LOCK_FUNCTION(monitor)
        : monitor_(monitor), lock_(monitor.mutex_) {}
    ~Lock() ABSL_UNLOCK_FUNCTION() {
      lock_.unlock();
      monitor_.changed_.notify_all();
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

    // Waits until `condition`; false if it does not hold after `timeout`.
    template <typename Condition>
    bool wait(absl::Duration timeout, Condition condition) {
      return monitor_.changed_.wait_for(lock_, timeout, condition);
    }
    // For the body of a thread that its owner ends.
    template <typename Condition>
    void wait(Condition condition) {
      monitor_.changed_.wait(lock_, condition);
    }

   private:
    Monitor& monitor_;
    MutexLock lock_;
  };

 private:
  Mutex mutex_;
  CondVar changed_;
};

}  // namespace evermoe
