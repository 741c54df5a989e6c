// Tells ThreadSanitizer in which order gRPC calls a reactor back. Debian's library is not
// instrumented, so the locks and queues that make the order are invisible to it.
//
//   order_.release();  // what this thread has done so far ...
//   StartRead(&incoming_);
//   ...
//   void OnReadDone(bool ok) override {
//     const Reaction reaction(order_);  // ... is seen from here on,
//
// and what a reaction has done by those that follow it. One order for each chain of operations that
// the library keeps in order: a reactor's reads, its writes, its end. What the library does not
// order, such as a read and a write, stays unordered, so that a race between the two is seen.
// Without ThreadSanitizer it is nothing.
#pragma once

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace evermoe {

class ReactionOrder {
 public:
#ifdef __SANITIZE_THREAD__
  void release() { __tsan_release(this); }
  void acquire() { __tsan_acquire(this); }
#else
  void release() {}
  void acquire() {}
#endif
};

// Stands for one call by the library as long as it lives.
class Reaction {
 public:
  explicit Reaction(ReactionOrder& order) : order_(order) { order_.acquire(); }
  ~Reaction() { order_.release(); }
  Reaction(const Reaction&) = delete;
  Reaction& operator=(const Reaction&) = delete;

 private:
  ReactionOrder& order_;
};

}  // namespace evermoe
