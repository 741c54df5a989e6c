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
  // The newest one counts. False if the training has gone on from where it says to stop: the role
  // stops at the next state that it can, and others, in the step before, may wait for it.
  bool order(const LeaveOrder& order) {
    const MutexLock lock(mutex_);
    order_.reset();
    if (order.is_off) return true;
    order_ = order;
    const bool says_where = order.stop_at >= Step(0);
    return !says_where || order.view != passed_in_ || passed_ < order.stop_at;
  }
  // The training is at `state`. True if it goes on from there; otherwise it stops.
  bool passes(View view, Step state) {
    const MutexLock lock(mutex_);
    if (is_to_stop(view, state)) return false;
    passed_in_ = view;
    passed_ = state;
    return true;
  }
  // Whether the role stops at `state`, or has passed where it was to stop, as long as `view` is the
  // newest one.
  bool stops_at(View view, Step state) const {
    const MutexLock lock(mutex_);
    return is_to_stop(view, state);
  }

 private:
  bool is_to_stop(View view, Step state) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return order_ && order_->view == view && order_->stop_at >= Step(0) && state >= order_->stop_at;
  }

  mutable Mutex mutex_;
  std::optional<LeaveOrder> order_ ABSL_GUARDED_BY(mutex_);
  View passed_in_ ABSL_GUARDED_BY(mutex_);
  Step passed_ ABSL_GUARDED_BY(mutex_){-1};
};

}  // namespace evermoe
