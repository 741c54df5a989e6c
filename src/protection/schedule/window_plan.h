// The one planner of windows: capture order and window length together, by expected cost. Pure.
//
// A longer window copies less per step but makes recovery longer; the order decides how much work
// catch-up can leave out. Cost of a plan, as a share of training time (MoEtion sections 3.5 and 3.6
// as corrected: R lies in [W, 2W] steps, the slots have unequal bytes, the copies must end before
// the optimizer's update, restarts cost time):
//
//   F    = sum over operators of (f + w), one full step of the failed stage
//   E[R] = detect + restart + load
//        + phi [(W - 1) F - sum of slot(i) w_i]     catch-up, frozen operators leave out w
//        + phi [W / 2 + 1 + lag] F                  run again up to the failure, with half a step
//   J    = mean over slots of max(0, (slot bytes + log bytes) / bandwidth - (T - T_update)) / T
//        + mean over slots of slot bytes x slowdown per byte / T
//        + E[R] / MTBF
//
// Tried is at every allowed length the window that a stage really takes by each rule. The least J
// wins. The runtime (recovery/plan/window_choice.h) and the forecast
// (planner/cost/protection_costs.h) plan by this alone, so they come to the same windows. Balanced
// windows need not be optimal; window_plan_test.cc measures how far from the best permutation and
// the best cut they are.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "protection/schedule/ordering.h"
#include "protection/schedule/window.h"

namespace evermoe {

// Measured on this rank over some steps of training.
struct StepProfile {
  double step_seconds = 0;           // T
  double update_seconds = 0;         // T_update: copies must have ended before it begins
  double copy_bytes_per_second = 0;  // device to host
  // Boundary activations and gradients that are logged per step, over the same link.
  int64_t log_bytes = 0;
  // By which a copied byte delays training even where copies keep up: processors that train copy
  // it. 0 where copies have engines of their own.
  double slowdown_seconds_per_byte = 0;
  // Sustained, to the peers that hold this rank's copies. 0 if unknown: then it is not checked.
  double peer_bytes_per_second = 0;
};

struct RecoveryProfile {
  double detect_seconds = 0;
  double restart_seconds = 0;
  double load_seconds = 0;
  // phi: M / (M + S - 1) for one failed stage of S with M micro-batches, whose boundaries are
  // served from logs; 1 for a global rollback; M' / (M' + S' - 1) for a joint segment of S' stages.
  double stage_share = 1;
  double lag_steps = 0;     // by which copies at peers are later than the snapshots
  double mtbf_seconds = 0;  // of the failures that this stage must recover from
};

struct WindowLimits {
  int length_min = 1;  // both equal to the world's common length for a rank that must follow it
  int length_max = 64;
  int copies = 2;                           // wanted at peers, per snapshot
  int copies_min = 1;                       // accepted if more do not fit
  int64_t memory_budget_bytes = INT64_MAX;  // host memory of this rank for all of MemoryUse
  // Largest mean stall, as a share of the step, that is accepted. 0: copies must never be waited
  // for.
  double stall_share_max = 1;
};

enum class OrderKind : uint8_t { kPopularity, kRatio };

enum class OrderRule : uint8_t {
  kPopularity,
  kRatio,
  kSavesMost,  // whichever of the two saves a catch-up more at the window's length
};

// How a stage captures its operators in a window. All its lanes must do it alike without a message,
// so it is a function of what they all know: the whole operators, what the gates chose, the rule
// and the length.
struct StageWindow {
  OrderKind kind = OrderKind::kRatio;
  CaptureOrder order;
  std::vector<Slot> slots;  // the balanced window over the whole operators
};

// `popularity` by OperatorProfile::expert; empty: nothing has been counted, so it says nothing and
// the order is by ratio. REQUIRES: length >= 1.
StageWindow stage_window(std::span<const OperatorProfile> whole, std::span<const double> popularity,
                         OrderRule rule, int length);

struct WindowPlanInput {
  // As far as this rank owns them: what it copies.
  std::vector<OperatorProfile> operators;
  // Of all owners together: what decides the order and runs again in a catch-up. Empty: as
  // `operators`.
  std::vector<OperatorProfile> whole;
  std::vector<double> popularity;  // as in stage_window()
  std::vector<OrderRule> rules = {OrderRule::kPopularity, OrderRule::kRatio};  // to choose from
  StepProfile step;
  RecoveryProfile recovery;
  WindowLimits limits;
};

// Host bytes a rank holds under a plan, at the worst instant.
struct MemoryUse {
  int64_t own_bytes = 0;     // two windows: the complete one and the one being made
  int64_t copies_bytes = 0;  // the same for each of `copies` ranks that keep theirs here
  int64_t log_bytes = 0;     // 2 W + 1 + lag steps: recovery may begin two windows back
  int64_t total_bytes() const { return own_bytes + copies_bytes + log_bytes; }
};

struct WindowPlan {
  CaptureOrder order;
  OrderKind order_kind = OrderKind::kPopularity;
  Window window;
  int copies = 0;
  MemoryUse memory;
  double stall_share = 0;       // first term of J
  double slowdown_share = 0;    // second
  double recovery_seconds = 0;  // E[R]
  double cost = 0;              // J
  std::vector<std::string>
      reasons;  // sentences: what was chosen, against what, and what was given up
};

// No allowed plan fits. `missing_bytes` more of what `reason` names would admit one: host memory,
// bytes per step on the copy link, or bytes per step to the peers.
struct WindowPlanInfeasible {
  int64_t missing_bytes = 0;
  std::string reason;
};

// Bytes that the copy link moves in a step beside the log before the update begins; may be
// negative.
int64_t step_budget_bytes(const StepProfile& step);

double mean_stall_share(const Window& window, const StepProfile& step);
double mean_slowdown_share(const Window& window, const StepProfile& step);

double expected_recovery_seconds(std::span<const OperatorProfile> operators,
                                 const CaptureOrder& order, const Window& window,
                                 const RecoveryProfile& recovery);

// The copies of `copies` other ranks are taken to be as large as this rank's own snapshots.
MemoryUse memory_use(const Window& window, int copies, int64_t log_bytes, double lag_steps);

// Fewer copies are tried only if no length fits with more. Among equals the shorter window wins.
// REQUIRES: positive step time, copy bandwidth and MTBF; 1 <= length_min <= length_max;
// 0 <= copies_min <= copies.
std::variant<WindowPlan, WindowPlanInfeasible> plan_window(const WindowPlanInput& input);

}  // namespace evermoe
