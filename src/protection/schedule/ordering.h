// In which order operators get their turn within a window.
//
// An operator whose turn is late stays frozen for longer in catch-up: its weight gradients and
// updates are not computed until its full snapshot is reached. An order is worth the sum over
// operators of (slot index) x (weight-gradient and update seconds).
#pragma once

#include <span>
#include <vector>

#include "protection/schedule/window.h"

namespace evermoe {

// What is measured of one operator on this rank.
struct OperatorProfile {
  int expert = -1;  // index into the popularity, -1 for gates, embedding, blocks and head
  OperatorCost cost;
  double forward_seconds = 0;   // f: forward and input gradient, per step
  double gradient_seconds = 0;  // w: weight gradient and update, per step; not done while frozen
};

// A capture order: position -> operator index, a permutation.
using CaptureOrder = std::vector<int>;

// MoEtion section 3.5: experts by ascending popularity, then everything that is not an expert,
// since that is always active. Ties by operator index.
CaptureOrder order_by_popularity(std::span<const OperatorProfile> operators,
                                 std::span<const double> popularity);

// By ascending w / A (A = full bytes): Smith's ratio for a weighted-completion problem, the best
// order where slots can be filled to the byte. An embedding, large but cheap to update, comes out
// first. Operators without bytes come last: their turn costs nothing. Ties by operator index.
CaptureOrder order_by_ratio(std::span<const OperatorProfile> operators);

// The operators' costs in capture order, as the functions of window.h want them.
std::vector<OperatorCost> costs_in_order(std::span<const OperatorProfile> operators,
                                         const CaptureOrder& order);

// Seconds of catch-up that frozen operators save: sum over operators of (slot index) w.
double frozen_seconds_saved(std::span<const OperatorProfile> operators, const CaptureOrder& order,
                            const Window& window);

}  // namespace evermoe
