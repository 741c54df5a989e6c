// Splitting of operators that are too large for one step's budget.
//
// Adam is element-wise: a part of an operator's master weights and moments can be captured at one
// step and the rest at another, and catch-up updates the parts it has. So an operator whose slot of
// one exceeds the budget is cut into pieces, which then stand in the capture order like operators.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "checkpoint/window.h"

namespace evermoe {

// The bytes [begin, end) of operator `operator_index`'s full snapshot, seen as one run of elements.
struct OperatorPiece {
  int operator_index = 0;
  int64_t begin = 0;
  int64_t end = 0;
  // cost.full_bytes = end - begin. Compute-only bytes are the operator's in proportion: rounded down at
  // both ends, exact where an element's bytes divide `granularity_bytes`.
  OperatorCost cost;
  friend bool operator==(const OperatorPiece&, const OperatorPiece&) = default;
};

// The capture order with oversized operators cut, all others whole. Cuts are multiples of
// `granularity_bytes` from the operator's begin. minimal_window over the pieces' costs is the shortest
// of all windows with such cuts. An operator is cut only if its slot of one exceeds the budget.
// Infeasible if even a piece of one granule does not fit beside the compute-only snapshots after it.
// REQUIRES: granularity_bytes >= 1.
std::variant<std::vector<OperatorPiece>, WindowInfeasible> split_oversized(
    std::span<const OperatorCost> costs, int64_t budget_bytes, int64_t granularity_bytes);

std::vector<OperatorCost> piece_costs(std::span<const OperatorPiece> pieces);

}  // namespace evermoe
