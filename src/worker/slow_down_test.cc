#include "worker/slow_down.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <time.h>

#include <atomic>
#include <thread>

namespace evermoe {
namespace {

bool always_computes() { return false; }

double seconds(clockid_t clock) {
  timespec time;
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Of the calling thread: how long it stands for each second that it computes. What it waits for a
// processor is no standing.
double standing_share(double busy) {
  const double began = seconds(CLOCK_MONOTONIC), computed = seconds(CLOCK_THREAD_CPUTIME_ID);
  double now = computed;
  while (now - computed < busy) now = seconds(CLOCK_THREAD_CPUTIME_ID);
  return (seconds(CLOCK_MONOTONIC) - began) / (now - computed) - 1;
}

TEST(SlowDownTest, TheThreadTakesLongerForWhatItComputes) {
  SlowDown slow;
  slow.begin(3, always_computes);
  EXPECT_GE(standing_share(0.2), 1.7);
}

TEST(SlowDownTest, AllThreadsStandWithIt) {
  SlowDown slow;
  slow.begin(3, always_computes);
  double other = 0;
  std::thread thread([&] { other = standing_share(0.2); });
  (void)standing_share(0.4);
  thread.join();
  EXPECT_GE(other, 0.5);
}

TEST(SlowDownTest, WhoWaitsDoesNotStand) {
  SlowDown slow;
  slow.begin(100, [] { return true; });
  const double began = seconds(CLOCK_MONOTONIC);
  EXPECT_EQ(::poll(nullptr, 0, 100), 0) << "no signal interrupts it";
  EXPECT_LT(seconds(CLOCK_MONOTONIC) - began, 10);
}

TEST(SlowDownTest, ItEndsWithTheObject) {
  {
    SlowDown slow;
    slow.begin(4, always_computes);
    (void)standing_share(0.02);
  }
  (void)standing_share(0.02);
  EXPECT_EQ(::poll(nullptr, 0, 100), 0) << "no signal interrupts it";
}

}  // namespace
}  // namespace evermoe
