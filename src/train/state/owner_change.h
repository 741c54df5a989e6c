// The state of an operator on its way from the ranks that own its shards to those that will.
//
// Ranges move as they are, each from the one rank that has it to every rank that needs it, and none
// that stays where it is: what a rank receives is what it lacks.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "base/ids.h"
#include "comm/communicator.h"
#include "model/operator.h"
#include "train/state/operator_state.h"

namespace evermoe {

// The ranks that own its shards, in their order; shards are cut as OperatorState cuts them.
struct OwnerChange {
  std::vector<Rank> before, after;
};

// Elements of an operator that its owners lack when its shards move from owners to others.
int64_t elements_to_move(int64_t flat_size, const std::vector<int>& from,
                         const std::vector<int>& to);

// Master weights and moments. Collective over `movers`, who are all owners, before and afterwards.
// `from` and `into`: this rank's state of it before and afterwards; null where it is no owner.
// `name` tells operators that move at the same time apart. Compute weights have to be derived
// afterwards. Throws StatusError.
void move_operator(Communicator& movers, uint32_t name, const OperatorSpec& spec,
                   const OwnerChange& owners, OperatorState* from, OperatorState* into);

}  // namespace evermoe
