// Brings what the owners of operators have of them together while the rank computes: sums gradients
// into shards, or shards of compute weights into whole ones.
//
// Operators of the same owners that are ready one after the other share a message up to
// `bucket_bytes`; a bucket starts when its last operator is ready. All owners of an operator form
// the same buckets and start them in the same order, so no bucket waits for one that waits for it:
// they have the same operators, in the model's order or all of them in its reverse.
//
// Bits do not depend on the buckets: gradients are added element by element in role order.
//
// Threads: the training thread only. While an exchange is under way the communicators of its
// operators take no other calls.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "train/state/operator_state.h"

namespace evermoe {

struct BucketLimits {
  int64_t bucket_bytes = int64_t{1} << 20;  // a larger operator is a bucket of its own
  // Of buckets that are under way at once; a larger one goes alone.
  int64_t in_flight_bytes = int64_t{64} << 20;
};

class BucketedExchange {
 public:
  enum class Kind {
    kReduceGradients,  // shard_gradient() becomes the sum
    kGatherCompute,    // compute() becomes whole
  };
  // Operators in the order in which they will be ready; they outlive the exchange. Operators with
  // one owner, and those that are frozen, need nothing. Gathered weights are shown to the layers.
  // `on_exchanged` is told of every other one as soon as it has what is exchanged.
  using OnExchanged = std::function<void(const OperatorState&)>;
  BucketedExchange(
      Kind kind, const std::vector<OperatorState*>& operators, const BucketLimits& limits,
      OnExchanged on_exchanged = [](const OperatorState&) {});
  // What has not been waited for is withdrawn.
  ~BucketedExchange();

  // One more operator is ready: what is exchanged of it must not change any more.
  void add_ready() { ++ready_; }
  size_t ready() const { return ready_; }
  // Without waiting: takes what has come and starts the buckets that are ready and find room. An
  // error is kept for finish(), and nothing is started after it.
  void advance();
  // Waits until everything is exchanged. REQUIRES: all operators are ready.
  absl::Status finish();

 private:
  class Bucket;
  void start_next();
  void finish_oldest();

  const BucketLimits limits_;
  const OnExchanged on_exchanged_;
  const size_t operators_;
  size_t ready_ = 0;
  int64_t bytes_in_flight_ = 0;
  absl::Status status_;                          // of the first that failed
  std::deque<std::unique_ptr<Bucket>> waiting_;  // in the order in which they start
  std::deque<std::unique_ptr<Bucket>> in_flight_;
};

}  // namespace evermoe
