// How much later than they ask for processes are run on a machine, as their own timers show, and
// what that adds to limits of silence: where every thread is run late, so is what others say.
// Pure. Threads: one at a time.
#pragma once

#include <algorithm>
#include <cmath>

#include "absl/time/time.h"

namespace evermoe {

// No limit grows to more than so many times itself because of what was measured: what really hangs
// on an overloaded machine is found then.
inline constexpr int kStallFactorMax = 20;
// Not worth another look.
inline constexpr absl::Duration kStallTrifle = absl::Milliseconds(50);

class Lateness {
 public:
  // Later than `standstill` a process has stood still (stall_adjusted_clock.h), which is over.
  explicit Lateness(absl::Duration standstill) : standstill_(standstill) {}

  // A timer of it was so much late.
  void note(absl::Duration now, absl::Duration late) {
    if (late > standstill_ || late < at(now)) return;
    newest_ = late;
    noted_ = now;
  }
  // The most lately: what was measured counts half after kHalf.
  absl::Duration at(absl::Duration now) const {
    return newest_ *
           std::exp2(-absl::FDivDuration(std::max(absl::ZeroDuration(), now - noted_), kHalf));
  }
  // What a sign of life of it may come later than `limit`. Zero where timers are as late as they
  // are on a busy machine that is in order.
  absl::Duration allowance(absl::Duration now, absl::Duration limit) const {
    return std::clamp(kHops * (at(now) - kInOrder), absl::ZeroDuration(),
                      (kStallFactorMax - 1) * limit);
  }

  static constexpr absl::Duration kHalf = absl::Seconds(15);
  static constexpr absl::Duration kInOrder = absl::Milliseconds(250);
  // From the heart of a worker to the controller: its own thread, the agent, the controller, and
  // the library's threads on both ends of both lines.
  static constexpr int kHops = 8;

 private:
  absl::Duration standstill_;
  absl::Duration newest_;
  absl::Duration noted_;
};

}  // namespace evermoe
