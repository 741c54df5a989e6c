#include "recovery/plan/protection_memory.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {
namespace {

std::string megabytes(int64_t bytes) { return absl::StrCat((bytes + (1 << 20) - 1) >> 20, " MiB"); }

int64_t logged_steps(const Strategy& strategy, int slots) {
  switch (strategy.log()) {
    case LogReach::kStep: return 3;  // a neighbour may be one behind, and one ahead
    case LogReach::kWindow: break;
  }
  return 2 * int64_t{std::max(slots, strategy.captures.period)} + 1;
}

// From the complete window's first on. The next one is complete two steps after it has begun, or
// one more where a view has opened meanwhile.
int64_t kept_gradients(const Strategy& strategy) {
  return strategy.keeps_gradients() ? strategy.captures.period + 3 : 0;
}

}  // namespace

MemoryNeed memory_need(std::span<const OperatorBytes> operators, int slots,
                       const MemoryConditions& conditions) {
  MemoryNeed need;
  for (const OperatorBytes& bytes : operators) {
    need.snapshots += 2 * (bytes.full + (slots - 1) * bytes.compute);
    need.gradients += kept_gradients(conditions.strategy) * bytes.gradients;
  }
  need.copies = conditions.copies * (need.snapshots + need.gradients);
  need.log = conditions.boundary_bytes * logged_steps(conditions.strategy, slots);
  return need;
}

int longest_window(std::span<const OperatorBytes> operators, const MemoryConditions& conditions,
                   int64_t budget) {
  int slots = 0;
  while (slots < conditions.strategy.captures.slots_max &&
         memory_need(operators, slots + 1, conditions).total() <= budget) {
    ++slots;
  }
  return slots;
}

absl::Status check_budget(const MemoryNeed& need, int64_t budget, int slots, int copies) {
  if (need.total() <= budget) return absl::OkStatus();
  return InvalidInput(absl::StrCat(
      "protection.memory_budget: ", megabytes(budget), " are too few: two windows of ", slots,
      " slots take ", megabytes(need.snapshots),
      need.gradients > 0 ? absl::StrCat(", gradients ", megabytes(need.gradients)) : "",
      ", the copies kept for ", copies, " peers ", megabytes(need.copies), ", boundary messages ",
      megabytes(need.log), ", together ", megabytes(need.total()), "; raise it, or lower ",
      need.gradients > 0 ? "protection.base_every_steps" : "protection.window",
      " or protection.copies"));
}

}  // namespace evermoe
