// Windows: how many consecutive steps a sparse checkpoint takes, and which operators each of them
// captures in full.
//
// Operators stand in capture order. The slot [begin, end) of a step captures these operators in
// full (master weights, moments, compute weights) and every later one compute-only, so that
// catch-up can run it forward and backward before its full snapshot is there. Operators of earlier
// slots are done: catch-up has them in full already. So with A = full and C = compute-only bytes
//
//   slot_bytes([b, e)) = sum A[b..e) + sum C[e..n)
//
// MoEtion's Algorithm 1 (section 3.5) counts operators instead of bytes and prices only the first
// slot. Filling slots from the last one backwards is what it wanted: slot_bytes never falls when a
// slot is extended on either side, so the greedy filling has the least number of slots, and every
// operator gets the latest slot that any such window gives it, which keeps it frozen longest in
// catch-up. window_test.cc holds both statements against all partitions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace evermoe {

// What one operator, as far as this rank owns it, costs to copy. 0 <= compute_bytes <= full_bytes.
struct OperatorCost {
  int64_t full_bytes = 0;
  int64_t compute_bytes = 0;
  friend bool operator==(const OperatorCost&, const OperatorCost&) = default;
};

// Half-open range of the capture order. Empty slots capture nothing in full.
struct Slot {
  int begin = 0;
  int end = 0;
  friend bool operator==(const Slot&, const Slot&) = default;
};

// Invariant: slots are adjacent and cover the capture order once; there is at least one.
struct Window {
  std::vector<Slot> slots;          // by step of the window
  std::vector<int64_t> step_bytes;  // slot_bytes of each
  int64_t peak_bytes = 0;           // the largest of them
  int64_t total_bytes = 0;          // their sum: one window's snapshots
  int length() const { return static_cast<int>(slots.size()); }
  friend bool operator==(const Window&, const Window&) = default;
};

// No window of any length stays within the budget.
struct WindowInfeasible {
  int64_t missing_bytes = 0;  // with so many more per step there is a window
  int operator_index = 0;     // whose slot of one is the largest, in capture order
  std::string reason;
};

// REQUIRES: 0 <= slot.begin <= slot.end <= costs.size()
int64_t slot_bytes(std::span<const OperatorCost> costs, Slot slot);

// The budget below which no window exists: the largest slot of a single operator.
int64_t least_budget_bytes(std::span<const OperatorCost> costs);

// The shortest window whose every step copies at most `budget_bytes`. Without operators it is one
// empty slot. O(n).
std::variant<Window, WindowInfeasible> minimal_window(std::span<const OperatorCost> costs,
                                                      int64_t budget_bytes);

// The window of exactly `length` steps with the lowest peak, to the byte. Where fewer slots do,
// empty ones come first: they capture everything compute-only, which never exceeds the peak, and
// leave every operator in the latest slot. REQUIRES: length >= 1.
Window balanced_window(std::span<const OperatorCost> costs, int length);

// The window of these slots with what they cost one rank. REQUIRES: `slots` as in a Window.
Window window_with_slots(std::span<const OperatorCost> costs, std::vector<Slot> slots);

// The length of the minimal window of many small equal operators:
// ceil(ln(b / (b - 1)) / ln(rho / (rho - 1))) with b = budget / (sum of compute bytes) and
// rho = full / compute bytes. Nothing for b <= 1: then the compute-only bytes alone do not fit.
// REQUIRES: budget_ratio > 0, rho > 1.
std::optional<int> closed_form_window_length(double budget_ratio, double rho);

}  // namespace evermoe
