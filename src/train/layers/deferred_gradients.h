// Gradients of weights, put off until this rank would have to wait for others.
//
// Only the update needs them, while other lanes and stages wait for the gradients of activations.
// So the backward pass computes the latter at once and hands the former in here, and they are
// computed while tokens or boundary messages are on their way: this hides messages and unequal
// loads of the lanes. (Backward in two parts: Qi et al., "Zero Bubble Pipeline Parallelism", 2024,
// section 2.)
//
// Bits do not depend on when a gradient is computed: those of an operator are in the order in which
// they were put off, so each accumulator gets the same additions in the same order.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "tensor/torch.h"

namespace evermoe {

class OperatorDeferral;

class DeferredGradients {
 public:
  // `bytes_max` limits the activations and gradients that are kept for it; 0: nothing is put off.
  explicit DeferredGradients(int64_t bytes_max) : bytes_max_(bytes_max) {}

  // Adds `work`, which needs `bytes` to be kept and is of `operators`; first computes the oldest
  // until these find room. The operators outlive its waiting.
  void add(int64_t bytes, std::function<void()> work,
           std::span<OperatorDeferral* const> operators = {});
  // Computes the oldest one; false if there is none.
  bool run_one();
  // Computes all that waits of an operator, oldest first, and of other operators what is computed
  // together with it, or has to be before that. After an error the rest is forgotten.
  void run_of(const OperatorDeferral& of_operator);
  void run_all();
  // Forgets them all: the step they belong to is given up.
  void clear();

  int64_t bytes() const { return bytes_; }
  int64_t bytes_max() const { return bytes_max_; }

 private:
  struct Deferred {
    int64_t bytes;
    std::function<void()> work;
    std::vector<OperatorDeferral*> operators;
  };
  // What run_of() computes, in this order; waits no longer.
  std::deque<Deferred> take_of(const OperatorDeferral& of_operator);
  void forget(const Deferred& deferred);

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
    OperatorDeferral* const self = this;
    add_together(bytes, std::move(work), {&self, 1});
  }
  // Work that is of all these operators, of which there is one at least. They share their
  // DeferredGradients.
  static void add_together(int64_t bytes, std::function<void()> work,
                           std::span<OperatorDeferral* const> operators) {
    operators.front()->all_.add(bytes, std::move(work), operators);
  }
  void run() { all_.run_of(*this); }
  bool is_empty() const { return waiting_ == 0; }

 private:
  friend class DeferredGradients;
  DeferredGradients& all_;
  int64_t waiting_ = 0;
};

}  // namespace evermoe
