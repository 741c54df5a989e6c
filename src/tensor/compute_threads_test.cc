#include "tensor/compute_threads.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <set>
#include <thread>

#include "base/mutex.h"

namespace evermoe {
namespace {

int own_niceness() { return ::getpriority(PRIO_PROCESS, 0); }

// Whether the system lets this user take back what a thread has given away.
bool may_take_more() {
  bool may = false;
  std::thread([&may] {
    const int usual = own_niceness();
    may = ::setpriority(PRIO_PROCESS, 0, usual + 1) == 0 &&
          ::setpriority(PRIO_PROCESS, 0, usual) == 0;
  }).join();
  return may;
}

// Of all threads of the calling thread's pool.
std::set<int> nicenesses_of_pool() {
  Mutex mutex;
  std::set<int> found;
  at::parallel_for(0, at::get_num_threads(), 1, [&](int64_t, int64_t) {
    const MutexLock lock(mutex);
    found.insert(own_niceness());
  });
  return found;
}

TEST(ComputePriorityTest, ThreadsThatComputeGiveWayAndTheOthersOfTheProcessDoNot) {
  const int usual = own_niceness();
  ASSERT_LT(usual, 16);
  std::atomic<bool> has_changed = false;
  int of_other = -1;
  std::thread other([&] {
    while (!has_changed) std::this_thread::yield();
    of_other = own_niceness();
  });
  // What has given way may stay so: in a thread of its own, with a pool of its own.
  std::thread([&] {
    set_compute_priority(ComputePriority::kGivesWay);
    EXPECT_EQ(nicenesses_of_pool(), std::set<int>{usual + 3});
    set_compute_priority(ComputePriority::kGivesWay);
    EXPECT_EQ(nicenesses_of_pool(), std::set<int>{usual + 3}) << "once is enough";
    set_compute_priority(ComputePriority::kUsual);
    if (may_take_more()) {
      EXPECT_EQ(nicenesses_of_pool(), std::set<int>{usual});
    }
  }).join();
  has_changed = true;
  other.join();
  EXPECT_EQ(of_other, usual);
}

}  // namespace
}  // namespace evermoe
