// The order to hand this rank's role over (LeaveOrder), on its way from the service thread to the
// training thread.
//
// Threads: any.
#pragma once

#include <optional>

#include "base/mutex.h"
#include "recovery/protocol/messages.h"

namespace evermoe {

class RoleLeave {
 public:
  // The newest one counts.
  void order(const LeaveOrder& order) {
    const MutexLock lock(mutex_);
    order_.reset();
    if (!order.is_off) order_ = order;
  }
  // Whether the role stops at `state`, or has passed where it was to stop, as long as `view` is the
  // newest one.
  bool stops_at(View view, Step state) const {
    const MutexLock lock(mutex_);
    return order_ && order_->view == view && order_->stop_at >= Step(0) && state >= order_->stop_at;
  }
  // Whether it stops at the state after this one.
  bool stops_after(View view, Step state) const {
    const MutexLock lock(mutex_);
    return order_ && order_->view == view && order_->stop_at.value == state.value + 1;
  }

 private:
  mutable Mutex mutex_;
  std::optional<LeaveOrder> order_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace evermoe
