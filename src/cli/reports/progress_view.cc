#include "cli/reports/progress_view.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "control/launch/run_summary.h"

namespace evermoe {
namespace {

constexpr absl::Duration kRedrawPeriod = absl::Milliseconds(100);
// Plain lines come at least so far apart, and further apart the longer the run takes: 2 s at first,
// a minute after 20 minutes.
constexpr absl::Duration kPlainPeriod = absl::Seconds(2);
constexpr int kPlainPeriodShare = 20;
// The pace of so many steps predicts the time that is left.
constexpr size_t kPaceSteps = 32;
constexpr char kClearLine[] = "\r\x1b[K";

std::string in_clock_text(double seconds) {
  const int64_t whole = static_cast<int64_t>(seconds + 0.5);
  if (whole >= 3600)
    return absl::StrFormat("%d:%02d:%02d", whole / 3600, whole / 60 % 60, whole % 60);
  return absl::StrFormat("%d:%02d", whole / 60, whole % 60);
}

// "protected from 34 in windows of 4, log 1.2 MiB".
std::string protection_text(const ProtectionState& state) {
  if (state.complete_window < Step(0)) return "not protected yet";
  return absl::StrFormat("protected from %d in windows of %d, log %.1f MiB",
                         state.complete_window.value, state.window_steps,
                         static_cast<double>(state.log_bytes) / (1 << 20));
}

}  // namespace

ProgressView::ProgressView(std::ostream& out, Clock& clock, ProgressOptions options)
    : out_(out), clock_(clock), options_(std::move(options)), began_(clock.now()) {}

void ProgressView::on_say(const std::string& line) {
  print_line(clock_prefix(clock_.now()) + line);
}

void ProgressView::on_report(const WorkerReport& report) {
  using Kind = WorkerReport::Kind;
  switch (report.kind) {
    case Kind::kReady:
      if (report.rank != Rank(0)) return;
      // A new attempt: its pace is measured anew, and the steps that are done again are shown.
      step_.reset();
      moments_.clear();
      if (report.step > Step(0))
        on_say(absl::StrCat("continues from step ", report.step.value, ": ", report.text));
      return;
    case Kind::kStep: return on_step(report);
    case Kind::kEvaluated:
      return on_say(absl::StrFormat("evaluation at step %d: validation loss %.4f",
                                    report.step.value, report.validation_loss));
    case Kind::kPublished:
      saved_ = report.step;
      return on_say(absl::StrCat("saved the checkpoint of step ", report.step.value));
    case Kind::kFinished:
    case Kind::kFailed:
    case Kind::kSaveFailed:
    case Kind::kExpertsMoved: return;  // the run tells of it
  }
}

void ProgressView::on_step(const WorkerReport& report) {
  const absl::Duration now = clock_.now();
  step_ = report;
  moments_.push_back(now);
  if (moments_.size() > kPaceSteps) moments_.pop_front();
  if (!due(now)) return;
  shown_ = now;
  if (options_.live) return redraw(now);
  print_line(clock_prefix(now) + status_line(now));
}

bool ProgressView::due(absl::Duration now) const {
  if (!shown_ || step_->step >= options_.steps) return true;
  const absl::Duration plain = std::max(kPlainPeriod, (now - began_) / kPlainPeriodShare);
  return now - *shown_ >= (options_.live ? kRedrawPeriod : plain);
}

void ProgressView::on_log(const std::string& role, const std::string& path,
                          const std::vector<std::string>& lines) {
  for (const std::string& line : lines) print_line(absl::StrCat("    ", role, " | ", line));
  print_line(absl::StrCat("    (", path, ")"));
}

void ProgressView::close() { clear(); }

std::string ProgressView::status_line(absl::Duration now) const {
  std::string line =
      absl::StrFormat("step %d/%d  loss %.4f  %s tokens/s", step_->step.value, options_.steps.value,
                      step_->loss, short_number(step_->tokens_per_second));
  const std::string left = time_left();
  if (!left.empty()) absl::StrAppend(&line, "  left ", left);
  if (step_->load_imbalance > 0)
    absl::StrAppendFormat(&line, "  imbalance %.2f", step_->load_imbalance);
  if (step_->lost_token_share > 0)
    absl::StrAppendFormat(&line, "  LOST %.3f %%", 100 * step_->lost_token_share);
  if (saved_) absl::StrAppend(&line, "  saved ", saved_->value);
  if (step_->protection) absl::StrAppend(&line, "  ", protection_text(*step_->protection));
  return line;
}

std::string ProgressView::time_left() const {
  if (moments_.size() < 2 || step_->step >= options_.steps) return "";
  const double pace = absl::ToDoubleSeconds(moments_.back() - moments_.front()) /
                      static_cast<double>(moments_.size() - 1);
  return in_clock_text(pace * static_cast<double>(options_.steps.value - step_->step.value));
}

std::string ProgressView::clock_prefix(absl::Duration now) const {
  return absl::StrFormat("[%7.1f s] ", absl::ToDoubleSeconds(now - began_));
}

void ProgressView::print_line(const std::string& line) {
  if (options_.quiet) return;
  clear();
  // At once: other processes may write there, too.
  out_ << absl::StrCat(line, "\n");
  if (options_.live && step_) redraw(clock_.now());
  out_.flush();
}

void ProgressView::redraw(absl::Duration now) {
  if (options_.quiet) return;
  std::string line = status_line(now);
  // A line that wraps could not be cleared.
  line.resize(std::min(line.size(), static_cast<size_t>(std::max(1, options_.columns() - 1))));
  out_ << kClearLine << line;
  out_.flush();
  drawn_ = true;
}

void ProgressView::clear() {
  if (!drawn_) return;
  out_ << kClearLine;
  out_.flush();
  drawn_ = false;
}

}  // namespace evermoe
