#include "recovery/capture_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "checkpoint/window.h"

namespace evermoe {
namespace {

std::vector<OperatorCost> costs_in_order(std::span<const StageOperator> operators, const std::vector<int>& order,
                                         bool whole) {
  std::vector<OperatorCost> costs;
  for (const int i : order) {
    const StageOperator& op = operators[static_cast<size_t>(i)];
    const OperatorBytes& bytes = whole ? op.whole : op.bytes;
    costs.push_back({bytes.full, bytes.compute});
  }
  return costs;
}

std::string megabytes(int64_t bytes) { return absl::StrCat((bytes + (1 << 20) - 1) >> 20, " MiB"); }

}  // namespace

std::vector<int> capture_order(std::span<const StageOperator> operators) {
  std::vector<int> order(operators.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const StageOperator &x = operators[static_cast<size_t>(a)], &y = operators[static_cast<size_t>(b)];
    return x.tokens + x.update_tokens < y.tokens + y.update_tokens;
  });
  return order;
}

std::vector<int> slots_of_operators(std::span<const StageOperator> operators, int slots) {
  const std::vector<int> order = capture_order(operators);
  const Window window = balanced_window(costs_in_order(operators, order, true), slots);
  std::vector<int> slot_of(operators.size(), 0);
  for (int slot = 0; slot < window.length(); ++slot) {
    for (int at = window.slots[static_cast<size_t>(slot)].begin; at < window.slots[static_cast<size_t>(slot)].end; ++at) {
      slot_of[static_cast<size_t>(order[static_cast<size_t>(at)])] = slot;
    }
  }
  return slot_of;
}

int fewest_slots(std::span<const StageOperator> operators, int64_t bytes_per_step) {
  const auto found = minimal_window(costs_in_order(operators, capture_order(operators), false), bytes_per_step);
  const Window* const window = std::get_if<Window>(&found);
  return window != nullptr ? window->length() : std::max(1, static_cast<int>(operators.size()));
}

void SlotChooser::add_step(double seconds) {
  newest_.push_back(seconds);
  if (newest_.size() > kStepsMax) newest_.pop_front();
}

int SlotChooser::wanted() {
  if (newest_.size() < kStepsMin) return 0;
  std::vector<double> sorted(newest_.begin(), newest_.end());
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2), sorted.end());
  const double median = sorted[sorted.size() / 2];
  if (answer_ > 0 && median < answered_for_ * 1.25 && median > answered_for_ / 1.25) return answer_;
  answered_for_ = median;
  answer_ = fewest_slots(operators_, static_cast<int64_t>(median * bytes_per_second_));
  return answer_;
}

MemoryNeed memory_need(std::span<const StageOperator> operators, int slots, int period, int copies,
                       int64_t boundary_bytes) {
  const std::vector<int> slot_of = slots_of_operators(operators, slots);
  int64_t window = 0;
  for (size_t i = 0; i < operators.size(); ++i) {
    const OperatorBytes& bytes = operators[i].bytes;
    window += bytes.full + static_cast<int64_t>(slot_of[i]) * bytes.compute;
  }
  MemoryNeed need;
  need.snapshots = 2 * window;
  need.copies = copies * need.snapshots;
  need.log = boundary_bytes * (2 * int64_t{std::max(slots, period)} + 1);
  return need;
}

int longest_window(std::span<const StageOperator> operators, int slots_max, int period, int copies, int64_t boundary_bytes,
                   int64_t budget) {
  int slots = 0;
  while (slots < slots_max &&
         memory_need(operators, slots + 1, std::max(period, slots + 1), copies, boundary_bytes).total() <= budget) {
    ++slots;
  }
  return slots;
}

absl::Status check_budget(const MemoryNeed& need, int64_t budget, int slots, int copies) {
  if (need.total() <= budget) return absl::OkStatus();
  return InvalidInput(absl::StrCat(
      "protection.memory_budget: ", megabytes(budget), " are too few: two windows of ", slots, " slots take ",
      megabytes(need.snapshots), ", the copies kept for ", copies, " peers ", megabytes(need.copies),
      ", boundary messages of two windows ", megabytes(need.log), ", together ", megabytes(need.total()),
      "; raise it, or lower protection.window or protection.copies"));
}

}  // namespace evermoe
