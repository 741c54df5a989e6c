#include "protection/schedule/window.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace evermoe {
namespace {

void check_costs(std::span<const OperatorCost> costs) {
  for (const OperatorCost& cost : costs) {
    CHECK(0 <= cost.compute_bytes && cost.compute_bytes <= cost.full_bytes)
        << cost.compute_bytes << " compute-only of " << cost.full_bytes << " bytes";
  }
}

struct LargestSingle {
  int64_t bytes = 0;
  int64_t compute_after = 0;  // the part of `bytes` that later operators need
  int operator_index = 0;
};

LargestSingle largest_single_slot(std::span<const OperatorCost> costs) {
  LargestSingle largest;
  int64_t compute_after = 0;
  for (int i = static_cast<int>(costs.size()) - 1; i >= 0; --i) {
    const int64_t bytes = costs[i].full_bytes + compute_after;
    if (bytes >= largest.bytes) largest = {bytes, compute_after, i};
    compute_after += costs[i].compute_bytes;
  }
  return largest;
}

WindowInfeasible why_infeasible(std::span<const OperatorCost> costs, const LargestSingle& largest,
                                int64_t budget_bytes) {
  const int i = largest.operator_index;
  const bool alone = costs[i].full_bytes > budget_bytes;
  std::string reason =
      absl::StrCat("operator ", i, " of the capture order needs ", costs[i].full_bytes,
                   " bytes in full and ", largest.compute_after,
                   " bytes for the compute-only snapshots after it, the budget of a step is ",
                   budget_bytes, " bytes: ", largest.bytes - budget_bytes, " bytes missing",
                   alone ? " (the operator alone exceeds the budget: split it)" : "");
  return {largest.bytes - budget_bytes, i, std::move(reason)};
}

// Greedy from the last slot backwards. REQUIRES: budget_bytes >= least_budget_bytes(costs).
std::vector<Slot> fill_backwards(std::span<const OperatorCost> costs, int64_t budget_bytes) {
  std::vector<Slot> slots;
  int64_t compute_after = 0;
  int end = static_cast<int>(costs.size());
  while (end > 0) {
    int begin = end;
    int64_t bytes = compute_after;
    while (begin > 0 && bytes + costs[begin - 1].full_bytes <= budget_bytes) {
      --begin;
      bytes += costs[begin].full_bytes;
      compute_after += costs[begin].compute_bytes;
    }
    CHECK(begin < end) << "budget " << budget_bytes << " is below the least";
    slots.push_back({begin, end});
    end = begin;
  }
  std::reverse(slots.begin(), slots.end());
  return slots;
}

}  // namespace

Window window_with_slots(std::span<const OperatorCost> costs, std::vector<Slot> slots) {
  CHECK(!slots.empty() && slots.back().end == static_cast<int>(costs.size()))
      << "not the slots of a window";
  Window window{.slots = std::move(slots)};
  window.step_bytes.resize(window.slots.size());
  int64_t compute_after = 0;
  for (int k = window.length() - 1; k >= 0; --k) {
    int64_t bytes = compute_after;
    for (int i = window.slots[k].begin; i < window.slots[k].end; ++i) {
      bytes += costs[i].full_bytes;
      compute_after += costs[i].compute_bytes;
    }
    window.step_bytes[k] = bytes;
    window.peak_bytes = std::max(window.peak_bytes, bytes);
    window.total_bytes += bytes;
  }
  return window;
}

int64_t slot_bytes(std::span<const OperatorCost> costs, Slot slot) {
  const int operators = static_cast<int>(costs.size());
  CHECK(0 <= slot.begin && slot.begin <= slot.end && slot.end <= operators);
  int64_t bytes = 0;
  for (int i = slot.begin; i < slot.end; ++i) bytes += costs[i].full_bytes;
  for (int i = slot.end; i < operators; ++i) bytes += costs[i].compute_bytes;
  return bytes;
}

int64_t least_budget_bytes(std::span<const OperatorCost> costs) {
  check_costs(costs);
  return largest_single_slot(costs).bytes;
}

std::variant<Window, WindowInfeasible> minimal_window(std::span<const OperatorCost> costs,
                                                      int64_t budget_bytes) {
  check_costs(costs);
  const LargestSingle largest = largest_single_slot(costs);
  if (largest.bytes > budget_bytes) {
    // Nothing to copy fits even into a budget below zero.
    if (!costs.empty()) return why_infeasible(costs, largest, budget_bytes);
  }
  std::vector<Slot> slots = fill_backwards(costs, budget_bytes);
  if (slots.empty()) slots.push_back({0, 0});
  return window_with_slots(costs, std::move(slots));
}

Window balanced_window(std::span<const OperatorCost> costs, int length) {
  CHECK(length >= 1) << "a window of " << length << " steps";
  int64_t low = least_budget_bytes(costs);  // the answer is in [low, high]
  int64_t high = 0;                         // one slot of everything
  for (const OperatorCost& cost : costs) high += cost.full_bytes;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (static_cast<int>(fill_backwards(costs, middle).size()) <= length) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  std::vector<Slot> filled = fill_backwards(costs, low);
  if (filled.empty()) filled.push_back({0, 0});
  std::vector<Slot> slots(static_cast<size_t>(length) - filled.size(), Slot{0, 0});
  slots.insert(slots.end(), filled.begin(), filled.end());
  return window_with_slots(costs, std::move(slots));
}

std::optional<int> closed_form_window_length(double budget_ratio, double rho) {
  CHECK(budget_ratio > 0 && rho > 1) << budget_ratio << " " << rho;
  if (budget_ratio <= 1) return std::nullopt;
  if (budget_ratio >= rho) return 1;
  const double steps = std::log(budget_ratio / (budget_ratio - 1)) / std::log(rho / (rho - 1));
  // Exact integers may come out a rounding error above themselves.
  return static_cast<int>(std::ceil(steps - 1e-9));
}

}  // namespace evermoe
