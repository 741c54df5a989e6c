// From a stage's operators and the configuration to what is captured when, and whether it fits. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "recovery/stage_trainer.h"

namespace evermoe {

// Operators in capture order: ascending weight-gradient work per byte (Smith's ratio: who costs most to
// run again per byte saved is captured last and stays frozen longest), then by index.
std::vector<int> capture_order(std::span<const StageOperator> operators);

// In which of `slots` slots each operator is captured in full: the balanced window over the whole
// operators, so the same on every lane of a stage.
std::vector<int> slots_of_operators(std::span<const StageOperator> operators, int slots);

// The fewest slots with which no step of this rank copies more than `bytes_per_step`; as many as there
// are operators if even that does not do, because then every slot has one operator at most.
int fewest_slots(std::span<const StageOperator> operators, int64_t bytes_per_step);

// How many slots a rank wants, from the steps that it has measured.
class SlotChooser {
 public:
  // A rank may copy so many bytes in a second.
  SlotChooser(std::vector<StageOperator> operators, double bytes_per_second)
      : operators_(std::move(operators)), bytes_per_second_(bytes_per_second) {}

  void add_step(double seconds);
  // 0 before kStepsMin steps have been measured, and as long as the measured pace has not moved by more
  // than a quarter since the last answer.
  int wanted();

 private:
  static constexpr size_t kStepsMin = 5;
  static constexpr size_t kStepsMax = 33;
  const std::vector<StageOperator> operators_;
  const double bytes_per_second_;
  std::deque<double> newest_;
  double answered_for_ = 0;
  int answer_ = 0;
};

// The bytes that protection takes on one rank at most.
struct MemoryNeed {
  int64_t snapshots = 0;  // the complete window and the one being made, its own
  int64_t copies = 0;     // the same of the peers whose copies it keeps
  int64_t log = 0;        // boundary messages of up to two windows and the step under way
  int64_t total() const { return snapshots + copies + log; }
};

// `boundary_bytes` is what the rank sends across its boundaries in a step. Peers are taken to be as large
// as this rank.
MemoryNeed memory_need(std::span<const StageOperator> operators, int slots, int period, int copies,
                       int64_t boundary_bytes);

// The longest window, up to `slots_max` slots, whose need is within `budget`; 0 if not even one slot is.
// Longer windows need more: whatever is captured late is kept compute-only in every slot before.
// `period`: 0 if windows follow each other back to back.
int longest_window(std::span<const StageOperator> operators, int slots_max, int period, int copies, int64_t boundary_bytes,
                   int64_t budget);

// InvalidInput with the arithmetic unless the need is within `budget`.
absl::Status check_budget(const MemoryNeed& need, int64_t budget, int slots, int copies);

}  // namespace evermoe
