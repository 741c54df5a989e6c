#include "worker/slow_down.h"

#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "base/check.h"

namespace evermoe {
namespace {

// Of the machine's clock, in nanoseconds.
constexpr int64_t kLook = 1'000'000;
constexpr int64_t kStandMin = 2'000'000;    // that is worth the signals
constexpr int64_t kStandMax = 100'000'000;  // so that others do not take it for dead

// A handler can reach nothing else.
std::atomic<int64_t> standing_until = 0;

int64_t now() {
  timespec time;
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void sleep_until(int64_t moment) {
  const timespec time{moment / 1'000'000'000, moment % 1'000'000'000};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) == EINTR) {
  }
}

void stand(int) {
  const int before = errno;
  sleep_until(standing_until.load());
  errno = before;
}

int signal_number() { return SIGRTMIN + 5; }

void signal_others() {
  const auto own = static_cast<pid_t>(::syscall(SYS_gettid));
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", gone)) {
    const auto thread = static_cast<pid_t>(std::atol(entry.path().filename().c_str()));
    if (thread != own) ::syscall(SYS_tgkill, ::getpid(), thread, signal_number());
  }
}

}  // namespace

SlowDown::~SlowDown() { end(); }

void SlowDown::end() {
  ends_ = true;
  if (thread_.joinable()) thread_.join();
}

void SlowDown::begin(double factor, std::function<bool()> waits) {
  CHECK(factor >= 1) << factor;
  end();
  struct sigaction action = {};
  action.sa_handler = stand;
  action.sa_flags = SA_RESTART;
  CHECK(::sigaction(signal_number(), &action, nullptr) == 0);
  ends_ = false;
  thread_ = std::thread([this, factor, waits = std::move(waits)] { run(factor, waits); });
}

void SlowDown::run(double factor, const std::function<bool()>& waits) {
  double owed = 0;
  while (!ends_) {
    const int64_t before = now();
    sleep_until(before + kLook);
    if (!waits()) owed += static_cast<double>(now() - before) * (factor - 1);
    while (owed >= kStandMin && !ends_) {
      const int64_t time = std::min(static_cast<int64_t>(owed), kStandMax);
      const int64_t until = now() + time;
      standing_until = until;
      signal_others();
      sleep_until(until);
      owed -= static_cast<double>(time);
    }
  }
}

}  // namespace evermoe
