#include "env/clock.h"

#include <time.h>

#include <cerrno>

#include "absl/time/clock.h"
#include "base/check.h"

namespace evermoe {
namespace {

class RealClock : public Clock {
 public:
  absl::Duration now() override { return time_of(CLOCK_MONOTONIC); }
  absl::Duration thread_time() override { return time_of(CLOCK_THREAD_CPUTIME_ID); }

  void sleep_until(absl::Duration deadline) override {
    const timespec time = absl::ToTimespec(deadline);
    if (deadline <= absl::ZeroDuration()) return;
    while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) == EINTR) {
    }
  }

  absl::Time wall_now() override { return absl::Now(); }

 private:
  static absl::Duration time_of(clockid_t clock) {
    timespec time;
    CHECK(::clock_gettime(clock, &time) == 0);
    return absl::DurationFromTimespec(time);
  }
};

}  // namespace

Clock& real_clock() {
  static RealClock& clock = *new RealClock;
  return clock;
}

}  // namespace evermoe
