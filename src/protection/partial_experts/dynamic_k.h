// LOSSY: how many experts per layer partial-expert checkpoints save as failures accumulate.
//
// PEC's Dynamic-K doubles K when the failures under the present K have cost more than their share
// of the bearable loss. That is no guarantee: one failure can cost more than all that is left (8
// experts, a checkpoint every 16 steps, a failure every 60 of 1000: 8.4 % where 5 % were allowed).
// The guard is one: it looks at what the next failure would cost before the checkpoint is
// committed, and K = all experts always satisfies it. Both together: the rule moves early, the
// guard stops it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace evermoe {

struct LossyKOptions {
  int experts = 1;              // per layer
  int k_first = 1;              // at the start of the run
  int64_t lost_tokens_max = 0;  // of the whole run; the paper bears 5 %
};

struct LossyKState {
  int k = 1;
  int64_t lost = 0;          // by all failures so far
  int64_t lost_under_k = 0;  // by those since K was last changed
};

struct LossyKDecision {
  LossyKState state;
  std::string reason;
};

// After a failure that lost `lost_now` tokens: K doubles, up to all experts, if the present K has
// used up its share. The paper does not give the shares; here each of the ceil(log2(experts /
// k_first)) values that K can leave has an equal one.
LossyKDecision lossy_k_after_fault(LossyKState state, int64_t lost_now,
                                   const LossyKOptions& options);

// Before the selection of a checkpoint: doubles K until a failure after its commit would keep the
// loss of the run within lost_tokens_max. `exposed_after(k)` is what that failure would cost if k
// experts per layer were saved; it must be 0 for all experts. With this at every checkpoint, the
// loss never exceeds the maximum.
LossyKDecision lossy_k_guarded(LossyKState state, const std::function<int64_t(int)>& exposed_after,
                               const LossyKOptions& options);

}  // namespace evermoe
