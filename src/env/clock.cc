#include "env/clock.h"

#include <time.h>

#include <cerrno>

#include "absl/time/clock.h"
#include "base/check.h"

namespace evermoe {
namespace {

class RealClock : public Clock {
 public:
  absl::Duration now() override {
    timespec time;
    CHECK(::clock_gettime(CLOCK_MONOTONIC, &time) == 0);
    return absl::DurationFromTimespec(time);
  }

  void sleep_until(absl::Duration deadline) override {
    const timespec time = absl::ToTimespec(deadline);
    if (deadline <= absl::ZeroDuration()) return;
    while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) == EINTR) {
    }
  }

  absl::Time wall_now() override { return absl::Now(); }
};

}  // namespace

Clock& real_clock() {
  static RealClock& clock = *new RealClock;
  return clock;
}

}  // namespace evermoe
