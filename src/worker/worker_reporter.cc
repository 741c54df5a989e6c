#include "worker/worker_reporter.h"

#include <utility>

#include "base/log.h"
#include "env/clock.h"

namespace evermoe {
namespace {

WorkerReport step_report(const StepRecord& record, double tokens_per_second) {
  WorkerReport report{.kind = WorkerReport::Kind::kStep, .step = record.step};
  report.loss = record.loss;
  report.gradient_norm = record.gradient_norm;
  report.learning_rate = record.learning_rate;
  report.load_imbalance = record.load_imbalance;
  report.tokens_per_second = tokens_per_second;
  report.lost_token_share = record.lost_token_share;
  return report;
}

StepMetrics step_metrics(const StepRecord& record, double tokens_per_second, double seconds) {
  StepMetrics metrics;
  metrics.step = record.step;
  metrics.loss = record.loss;
  metrics.auxiliary_loss = record.auxiliary_loss;
  metrics.gradient_norm = record.gradient_norm;
  metrics.learning_rate = record.learning_rate;
  metrics.load_imbalance = record.load_imbalance;
  metrics.routing_skew = record.routing_skew;
  metrics.loss_scale = record.loss_scale;
  metrics.applied = record.applied;
  metrics.tokens_per_second = tokens_per_second;
  metrics.seconds = seconds;
  metrics.time = real_clock().wall_now();
  metrics.lost_token_share = record.lost_token_share;
  return metrics;
}

void add_protection(const ProtectionState& former, const ProtectionState& state,
                    StepMetrics& metrics) {
  metrics.window_steps = state.window_steps;
  metrics.complete_window = state.complete_window;
  metrics.log_bytes = state.log_bytes;
  metrics.snapshot_bytes = state.snapshot_bytes;
  metrics.captured_bytes = state.captured_bytes - former.captured_bytes;
  metrics.read_wait_seconds = state.read_wait_seconds - former.read_wait_seconds;
  metrics.copy_wait_seconds = state.copy_wait_seconds - former.copy_wait_seconds;
  metrics.copying_seconds = state.copying_seconds - former.copying_seconds;
}

}  // namespace

WorkerReporter::WorkerReporter(std::function<void(WorkerReport)> report, Files& files,
                               std::string out)
    : report_(std::move(report)),
      files_(files),
      out_(std::move(out)),
      step_began_(real_clock().now()) {}

void WorkerReporter::on_step(const StepRecord& record,
                             const std::optional<ProtectionState>& protection) {
  if (record.step <= told_) return;
  told_ = record.step;
  const auto now = real_clock().now();
  const double seconds = absl::ToDoubleSeconds(now - step_began_);
  step_began_ = now;
  const double rate = static_cast<double>(record.tokens) / seconds;
  WorkerReport report = step_report(record, rate);
  report.protection = protection;
  report_(report);
  if (metrics_ == nullptr) {
    auto opened = MetricsWriter::open(files_, out_, Step(record.step.value - 1));
    warn_if_error(opened.status());
    if (opened.ok()) metrics_ = *std::move(opened);
  }
  if (metrics_ == nullptr) return;
  StepMetrics metrics = step_metrics(record, rate, seconds);
  if (protection) add_protection(former_, *protection, metrics);
  warn_if_error(metrics_->append(metrics));
  if (protection) former_ = *protection;
}

void WorkerReporter::on_evaluated(Step step, double loss, double accuracy) {
  if (step != told_ || step <= evaluated_) return;
  evaluated_ = step;
  WorkerReport report{.kind = WorkerReport::Kind::kEvaluated, .step = step};
  report.validation_loss = loss;
  report.validation_accuracy = accuracy;
  report_(report);
  if (metrics_ != nullptr) warn_if_error(metrics_->append_validation(step, loss, accuracy));
  step_began_ = real_clock().now();
}

void WorkerReporter::on_published(Step step) {
  report_({.kind = WorkerReport::Kind::kPublished, .step = step});
}

void WorkerReporter::on_experts_moved(const ExpertMove& move) {
  if (moved_ == move) return;
  moved_ = move;
  WorkerReport report{.kind = WorkerReport::Kind::kExpertsMoved, .step = move.step};
  report.move = move;
  report_(report);
}

absl::Status WorkerReporter::close() {
  return metrics_ == nullptr ? absl::OkStatus() : metrics_->close();
}

void WorkerReporter::warn_if_error(const absl::Status& status) {
  if (!status.ok()) log_warning("metrics: " + std::string(status.message()));
}

}  // namespace evermoe
