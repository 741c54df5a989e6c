// A moment on the monotonic clock after which somebody stops waiting.
#pragma once

#include <algorithm>
#include <chrono>

#include "absl/time/time.h"

namespace evermoe {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  // Waits longer than kLongest are cut to it: nothing in a job may wait for ever.
  static constexpr absl::Duration kLongest = absl::Hours(24 * 30);

  explicit Deadline(absl::Duration timeout)
      : at_(Clock::now() +
            absl::ToChronoNanoseconds(std::clamp(timeout, absl::ZeroDuration(), kLongest))) {}

  Clock::time_point at() const { return at_; }
  bool passed() const { return Clock::now() >= at_; }
  absl::Duration left() const {
    return std::max(absl::ZeroDuration(), absl::FromChrono(at_ - Clock::now()));
  }
  // For poll() and epoll_wait(): rounded up, so that a wait never ends before the deadline, and at
  // most an hour at a time.
  int left_ms() const {
    return static_cast<int>(std::min<int64_t>(
        3600'000, absl::ToInt64Milliseconds(left() + absl::Nanoseconds(999'999))));
  }

 private:
  Clock::time_point at_;
};

}  // namespace evermoe
