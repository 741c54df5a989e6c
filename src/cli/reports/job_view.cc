#include "cli/reports/job_view.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "cli/reports/progress_view.h"
#include "config/job_data.h"
#include "config/job_strategy.h"
#include "control/launch/protection_fit.h"

namespace evermoe {
namespace {

int terminal_columns(int fd) {
  winsize size = {};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

ProgressOptions progress_options(const JobViewOptions& options, const JobConfig& config) {
  const int fd = options.json ? STDERR_FILENO : STDOUT_FILENO;
  ProgressOptions progress;
  progress.live = ::isatty(fd) == 1;
  progress.quiet = options.quiet;
  progress.columns = [fd] { return terminal_columns(fd); };
  progress.steps = Step(config.train.steps);
  return progress;
}

void print_failure(const RunSummary& summary) {
  std::string line = summary.reason;
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::cerr << absl::StrCat("evermoe: ", line, "\n");
}

}  // namespace

absl::StatusOr<RunSummary> run_and_show(const JobRunOptions& job, const JobViewOptions& options) {
  ProgressView progress(options.json ? std::cerr : std::cout, real_clock(),
                        progress_options(options, job.config));
  absl::StatusOr<RunSummary> summary = run_job(real_files(), real_clock(), job, progress);
  progress.close();
  if (!summary.ok()) return summary;
  if (summary->status == RunStatus::kTakenOver) return summary;  // its host says the rest
  if (summary->status == RunStatus::kFailed) print_failure(*summary);
  if (options.json)
    std::cout << to_json(*summary) << "\n";
  else if (!options.quiet && summary->exit_code != 2)
    std::cout << to_text(*summary);
  std::cout.flush();
  return summary;
}

absl::StatusOr<JobConfig> fitted(JobConfig config) {
  const Strategy strategy = strategy_of(config);
  if (strategy.saves_few_experts) RETURN_IF_ERROR(check_image_memory(config));
  if (!strategy.keeps_copies()) return config;
  // Evaluations fill the log, too: "all" of them counted, if the text says how many that is.
  JobConfig counted = config;
  if (config.evaluate.micro_batches == 0 && config.data.tokenizer == "bytes") {
    ASSIGN_OR_RETURN(counted.evaluate.micro_batches, evaluation_micro_batches_max(config));
  }
  ASSIGN_OR_RETURN(const ProtectionFit fit, fit_protection(counted));
  if (!fit.why.empty()) std::cerr << "evermoe: " << fit.why << "\n";
  config.protection.copies = fit.copies;
  return config;
}

}  // namespace evermoe
