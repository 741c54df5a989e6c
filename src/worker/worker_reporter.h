// Tells the run and the metrics what happens on rank 0.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "control/wire/worker_report.h"
#include "env/files.h"
#include "metrics/metrics_writer.h"
#include "recovery/plan/protection_state.h"
#include "train/step/verdict.h"

namespace evermoe {

// Threads: one at a time.
class WorkerReporter {
 public:
  // Writes into the folder `out` from the first step on that it hears of. `files` outlives it.
  WorkerReporter(std::function<void(WorkerReport)> report, Files& files, std::string out);

  // Steps and evaluations that it has heard of before are being run again and are not told twice.
  void on_step(const StepRecord& record,
               const std::optional<ProtectionState>& protection = std::nullopt);
  void on_evaluated(Step step, double loss, double accuracy);
  void on_published(Step step);
  void on_experts_moved(const ExpertMove& move);
  absl::Status close();

 private:
  // A full disk must not stop the training of a model whose checkpoints may be elsewhere.
  void warn_if_error(const absl::Status& status);

  const std::function<void(WorkerReport)> report_;
  Files& files_;
  const std::string out_;
  std::unique_ptr<MetricsWriter> metrics_;
  Step told_{-1};
  Step evaluated_{-1};
  std::optional<ExpertMove> moved_;
  absl::Duration step_began_;
  ProtectionState former_;
};

}  // namespace evermoe
