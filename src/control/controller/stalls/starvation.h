// How long a worker was ready to compute and got no processor, as its agent says: such time is none
// in which it could have done what is waited for, and is granted once more.
// Pure. Threads: one at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "control/controller/stalls/lateness.h"

namespace evermoe {

// Of one worker, over all its processes. Only grows.
class Starvation {
 public:
  // A new process is started, which has not been starved yet.
  void on_start() { reported_ = absl::ZeroDuration(); }
  // A process that was started by somebody else.
  void on_unknown() { reported_.reset(); }
  // Of the process, since it began. `period`: of since().
  void on_report(absl::Duration total, int64_t period) {
    const absl::Duration more = reported_ ? total - *reported_ : absl::ZeroDuration();
    reported_ = total;
    if (std::exchange(period_, period) != period) before_period_ = total_;
    if (more > absl::ZeroDuration() && more < absl::InfiniteDuration()) total_ += more;
  }
  absl::Duration total() const { return total_; }
  // Since the period began; periods are numbered upwards.
  absl::Duration since(int64_t period) const {
    return period_ == period ? total_ - before_period_ : absl::ZeroDuration();
  }

 private:
  std::optional<absl::Duration> reported_;
  absl::Duration total_;
  int64_t period_ = 0;
  absl::Duration before_period_;
};

// What is granted on top of one limit.
class StarvedGrant {
 public:
  // The limit begins to run when the worker has been starved for so long.
  void begin(absl::Duration starved) {
    starved_ = starved;
    granted_ = absl::ZeroDuration();
  }
  // The limit is over. So much of the time until now has to be granted once more; zero: it had its
  // time.
  absl::Duration take(absl::Duration starved, absl::Duration limit) {
    const absl::Duration more =
        std::min(starved - starved_, (kStallFactorMax - 1) * limit - granted_);
    if (more < kStallTrifle) return absl::ZeroDuration();
    starved_ = starved;
    granted_ += more;
    return more;
  }

 private:
  absl::Duration starved_;
  absl::Duration granted_;
};

}  // namespace evermoe
