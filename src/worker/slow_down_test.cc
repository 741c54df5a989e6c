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

// Computes for so many seconds of the calling thread's own time.
void compute(double busy) {
  const double began = seconds(CLOCK_THREAD_CPUTIME_ID);
  while (seconds(CLOCK_THREAD_CPUTIME_ID) - began < busy) {
  }
}

// Whether the calling thread comes to stand for so long for each second that it computes. On a busy
// machine the turns of standing come late and long, so it has time for more than a few; and a
// thread that gets no processor hears late that it is to stand, and stands for what is left (1.4
// instead of 2 was seen).
bool comes_to_stand(double share) {
  constexpr double kTurn = 0.2, kMax = 5;
  const double began = seconds(CLOCK_MONOTONIC);
  for (double computed = kTurn; computed <= kMax; computed += kTurn) {
    compute(kTurn);
    if (seconds(CLOCK_MONOTONIC) - began >= (1 + share) * computed) return true;
  }
  return false;
}

TEST(SlowDownTest, TheThreadTakesLongerForWhatItComputes) {
  SlowDown slow;
  slow.begin(3, always_computes);
  EXPECT_TRUE(comes_to_stand(1.1));
}

TEST(SlowDownTest, AllThreadsStandWithIt) {
  SlowDown slow;
  slow.begin(3, always_computes);
  bool other = false;
  std::thread thread([&] { other = comes_to_stand(0.5); });
  compute(0.4);
  thread.join();
  EXPECT_TRUE(other);
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
    compute(0.02);
  }
  compute(0.02);
  EXPECT_EQ(::poll(nullptr, 0, 100), 0) << "no signal interrupts it";
}

}  // namespace
}  // namespace evermoe
