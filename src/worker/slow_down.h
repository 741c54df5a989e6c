// Makes this process slower, as a machine does that is hot, old or shared: all its threads stand
// still for a part of the time in which it computes, in turns of milliseconds. What it waits for
// takes as long as before.
//
// A thread of its own signals each of the others, whose handler sleeps; what they wait for in the
// kernel goes on as after any signal.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace evermoe {

class SlowDown {
 public:
  SlowDown() = default;
  SlowDown(const SlowDown&) = delete;
  SlowDown& operator=(const SlowDown&) = delete;
  ~SlowDown();

  // What this process computes takes `factor` times as long from now on. `waits`: whether it waits
  // for others at this moment; called in a thread of its own while this lives. One caller at a
  // time; the newest call counts. REQUIRES: factor >= 1.
  void begin(double factor, std::function<bool()> waits);

 private:
  void end();
  void run(double factor, const std::function<bool()>& waits);

  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

}  // namespace evermoe
