// Gradients of weights, put off until this rank would have to wait for others.
//
// Only the update needs them, while other lanes and stages wait for the gradients of activations.
// So the backward pass computes the latter at once and hands the former in here, and they are
// computed while tokens or boundary messages are on their way: this hides messages and unequal
// loads of the lanes. (Backward in two parts: Qi et al., "Zero Bubble Pipeline Parallelism", 2024,
// section 2.)
//
// Bits do not depend on when a gradient is computed: all are, in the order in which they were put
// off, so each accumulator gets the same additions in the same order.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>

#include "tensor/torch.h"

namespace evermoe {

class DeferredGradients {
 public:
  // `bytes_max` limits the activations and gradients that are kept for it; 0: nothing is put off.
  explicit DeferredGradients(int64_t bytes_max) : bytes_max_(bytes_max) {}

  // Adds `work`, which needs `bytes` to be kept; first computes the oldest until these find room.
  // `count`, if any, is one more for as long as it waits; it outlives that.
  void add(int64_t bytes, std::function<void()> work, int64_t* count = nullptr);
  // Computes the oldest one; false if there is none.
  bool run_one();
  void run_all();
  // Forgets them all: the step they belong to is given up.
  void clear();

  int64_t bytes() const { return bytes_; }
  int64_t bytes_max() const { return bytes_max_; }

 private:
  struct Deferred {
    int64_t bytes;
    std::function<void()> work;
    int64_t* count;
  };
  const int64_t bytes_max_;
  int64_t bytes_ = 0;
  std::deque<Deferred> waiting_;
};

// The deferred gradients of one operator among those of all.
class OperatorDeferral {
 public:
  explicit OperatorDeferral(DeferredGradients& all) : all_(all) {}
  OperatorDeferral(const OperatorDeferral&) = delete;
  OperatorDeferral& operator=(const OperatorDeferral&) = delete;

  // As DeferredGradients::add().
  void add(int64_t bytes, std::function<void()> work) {
    all_.add(bytes, std::move(work), &waiting_);
  }
  bool is_empty() const { return waiting_ == 0; }

 private:
  DeferredGradients& all_;
  int64_t waiting_ = 0;
};

}  // namespace evermoe
