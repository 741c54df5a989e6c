// The record of a run for people and plots: OUT/metrics.jsonl (one object per step) and
// OUT/loss.csv (step,loss,validation_loss), written by rank 0's worker.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/ids.h"
#include "env/files.h"

namespace evermoe {

struct StepMetrics {
  Step step;
  double loss = 0;
  double auxiliary_loss = 0;
  double gradient_norm = 0;
  double learning_rate = 0;
  double load_imbalance = 0;
  std::vector<double> routing_skew;  // by MoE layer
  double loss_scale = 1;
  bool applied = true;
  double tokens_per_second = 0;
  double seconds = 0;
  absl::Time time;  // of the commit, by the clock of the machine of rank 0
  // Of a protected job (recovery/plan/protection_state.h); not written where window_steps is 0.
  // Waits and captured bytes are those of this step.
  int window_steps = 0;
  Step complete_window{-1};
  int64_t log_bytes = 0;
  int64_t snapshot_bytes = 0;
  int64_t captured_bytes = 0;
  double read_wait_seconds = 0;
  double copy_wait_seconds = 0;
  double copying_seconds = 0;
  // By restarts so far, of the run's tokens to experts; only written where it is not 0.
  double lost_token_share = 0;
};

class MetricsWriter {
 public:
  // Drops what the files say of steps after `resumed` (it will be written again) and a torn last
  // line, atomically.
  static absl::StatusOr<std::unique_ptr<MetricsWriter>> open(Files& files,
                                                             const std::string& directory,
                                                             Step resumed);
  virtual ~MetricsWriter() = default;
  virtual absl::Status append(const StepMetrics& metrics) = 0;
  // Validation loss of the state at `step`, whose metrics have just been appended.
  virtual absl::Status append_validation(Step step, double loss, double accuracy) = 0;
  virtual absl::Status close() = 0;
};

}  // namespace evermoe
