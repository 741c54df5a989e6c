#include "recovery/plan/protection_memory.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {
namespace {

std::string megabytes(int64_t bytes) { return absl::StrCat((bytes + (1 << 20) - 1) >> 20, " MiB"); }

}  // namespace

MemoryNeed memory_need(std::span<const OperatorBytes> operators, int slots, int period, int copies,
                       int64_t boundary_bytes) {
  int64_t window = 0;
  for (const OperatorBytes& bytes : operators) window += bytes.full + (slots - 1) * bytes.compute;
  MemoryNeed need;
  need.snapshots = 2 * window;
  need.copies = copies * need.snapshots;
  need.log = boundary_bytes * (2 * int64_t{std::max(slots, period)} + 1);
  return need;
}

int longest_window(std::span<const OperatorBytes> operators, int slots_max, int period, int copies,
                   int64_t boundary_bytes, int64_t budget) {
  int slots = 0;
  while (slots < slots_max &&
         memory_need(operators, slots + 1, std::max(period, slots + 1), copies, boundary_bytes)
                 .total() <= budget) {
    ++slots;
  }
  return slots;
}

absl::Status check_budget(const MemoryNeed& need, int64_t budget, int slots, int copies) {
  if (need.total() <= budget) return absl::OkStatus();
  return InvalidInput(
      absl::StrCat("protection.memory_budget: ", megabytes(budget), " are too few: two windows of ",
                   slots, " slots take ", megabytes(need.snapshots), ", the copies kept for ",
                   copies, " peers ", megabytes(need.copies), ", boundary messages of two windows ",
                   megabytes(need.log), ", together ", megabytes(need.total()),
                   "; raise it, or lower protection.window or protection.copies"));
}

}  // namespace evermoe
