// What a rank captures from here on: by which window rule, in which order, and the position that
// goes with every slot. The rule comes from the records, the order from what the gates chose
// (operator_ordering.h).
//
// The position is the capture order's state and the trainer's: the first chunk of every slot holds
// it. A stage that goes back takes it up with slot 0 and proves it with every later slot.
//
// Threads: training thread only.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "protection/schedule/capture_schedule.h"
#include "recovery/plan/operator_ordering.h"
#include "recovery/stage_trainer.h"

namespace evermoe {

class WindowState {
 public:
  // The trainer outlives it. Until the first rule nothing is captured.
  WindowState(StageTrainer& trainer, const OrderingOptions& ordering);

  const CaptureSchedule& schedule() const { return schedule_; }
  const OperatorOrdering& ordering() const { return ordering_; }

  // At the state where the job began: nothing has been counted.
  void begin_run(const WindowRule& rule);
  // The trainer's operators are on other lanes now.
  void on_moved();
  // From now on by this rule, in the order at hand.
  void follow(const WindowRule& rule);
  // The state at hand is the first of a window: takes a new order if there is reason to, and says
  // why.
  std::optional<std::string> begin_window();
  void add_step(const ExpertLoads& loads) { ordering_.add_step(loads); }

  RecordBytes position() const;
  // Takes up a position that was captured. Corrupt unless it is one of this stage.
  absl::Status take_position(std::span<const std::byte> position);
  // Contradiction unless this rank has come to the position that was captured.
  absl::Status compare_position(std::span<const std::byte> position) const;

 private:
  // The rule or the order has changed.
  void schedule_by(const WindowRule& rule);

  StageTrainer& trainer_;
  OperatorOrdering ordering_;
  CaptureSchedule schedule_;
};

}  // namespace evermoe
