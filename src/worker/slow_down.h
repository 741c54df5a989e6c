// Makes this process slower, as a machine does that is hot or old: for whatever one of its threads
// computes all of them stand still for a while, in turns of milliseconds. What it waits for takes
// as long as before.
//
// A thread of its own signals each of the others, whose handler sleeps; what they wait for in the
// kernel goes on as after any signal.
#pragma once

#include <time.h>

#include <atomic>
#include <thread>

namespace evermoe {

class SlowDown {
 public:
  SlowDown() = default;
  SlowDown(const SlowDown&) = delete;
  SlowDown& operator=(const SlowDown&) = delete;
  ~SlowDown();

  // What the calling thread computes takes `factor` times as long from now on. Any thread that
  // lives as long as this, but one at a time; the newest call counts. REQUIRES: factor >= 1.
  void begin(double factor);

 private:
  void end();
  void run(double factor, clockid_t computed);

  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

}  // namespace evermoe
