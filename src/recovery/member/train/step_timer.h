// Measures for how long this rank computes in each step, apart from waiting for others: what is put
// off and computed while it waits counts, since it is the same work on every lane.
//
// A step is measured from the verdict before it to its own. One in which anything else was done, an
// evaluation, a save, a recovery, a change of lanes, says nothing and is left out.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "env/clock.h"
#include "recovery/protocol/step_time.h"

namespace evermoe {

class StepTimer {
 public:
  // For how long the training thread has waited for others so far.
  using Waited = std::function<absl::Duration()>;
  StepTimer(Clock& clock, Waited waited) : clock_(clock), waited_(std::move(waited)) {}

  // ---- training thread

  // A verdict has been made in this view.
  void begin(View view) { began_ = {view, clock_.now(), waited_()}; }
  // What is done now is no part of a step.
  void leave_out() { began_.reset(); }
  // What is done within this call is done by few ranks, and counts as waiting.
  void set_aside(const std::function<void()>& what) {
    const absl::Duration before = clock_.now();
    what();
    if (began_) began_->waited -= clock_.now() - before;
  }
  // The verdict on this step comes next, in this view unless that ends.
  void end(Step step, View view, double work) {
    const std::optional<Moment> began = std::exchange(began_, std::nullopt);
    if (!began || began->view != view) return;
    const absl::Duration waited = waited_() - began->waited;
    const absl::Duration computing = clock_.now() - began->now - waited;
    const MutexLock lock(mutex_);
    if (times_.size() == kStepTimesMax) times_.erase(times_.begin());
    times_.push_back({step, std::max(computing, absl::ZeroDuration()), work});
  }

  // ---- any thread

  // Those since the last call, oldest first.
  std::vector<StepTime> take() {
    const MutexLock lock(mutex_);
    return std::exchange(times_, {});
  }

 private:
  struct Moment {
    View view;
    absl::Duration now, waited;
  };
  Clock& clock_;
  const Waited waited_;
  std::optional<Moment> began_;
  Mutex mutex_;
  std::vector<StepTime> times_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace evermoe
