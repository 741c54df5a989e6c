#include "control/launch/job_run.h"

#include <algorithm>
#include <deque>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "checkpoint/format/checkpoint_names.h"
#include "checkpoint/read/checkpoint_reader.h"
#include "config/job_data.h"
#include "config/job_strategy.h"
#include "control/controller/control_options.h"
#include "control/folder/job_end.h"
#include "control/folder/job_folder.h"
#include "control/folder/job_objects.h"
#include "control/hosting/lanes_history.h"
#include "control/launch/protected_run.h"
#include "data/job_tokens.h"
#include "faults/fault_script.h"
#include "faults/injected_faults.h"

namespace evermoe {
namespace {

// Speeds of so many newest steps make the median.
constexpr size_t kSpeedsMax = 4096;
// The newest lines of the loss curve, in which the last step's is looked for.
constexpr int64_t kCurveTailBytes = 64 << 10;

// Passes everything on and remembers what the summary needs.
class Listener : public RunObserver {
 public:
  Listener(RunObserver& next, JobUploads& uploads) : next_(next), uploads_(uploads) {}

  void on_say(const std::string& line) override { next_.on_say(line); }
  void on_log(const std::string& role, const std::string& path,
              const std::vector<std::string>& lines) override {
    next_.on_log(role, path, lines);
  }
  void on_report(const WorkerReport& report) override {
    uploads_.look(real_clock().now());
    if (report.kind == WorkerReport::Kind::kStep) {
      loss_ = report.loss;
      lost_token_share_ = report.lost_token_share;
      speeds_.push_back(report.tokens_per_second);
      if (speeds_.size() > kSpeedsMax) speeds_.pop_front();
    }
    if (report.kind == WorkerReport::Kind::kEvaluated) {
      validation_loss_ = report.validation_loss;
      validation_accuracy_ = report.validation_accuracy;
    }
    next_.on_report(report);
  }

  void fill(RunSummary& summary) const {
    if (loss_) summary.final_loss = loss_;
    if (validation_loss_) summary.validation_loss = validation_loss_;
    summary.validation_accuracy = validation_accuracy_;
    summary.lost_token_share = lost_token_share_;
    if (speeds_.empty()) return;
    std::vector<double> speeds(speeds_.begin(), speeds_.end());
    const auto middle = speeds.begin() + std::ssize(speeds) / 2;
    std::nth_element(speeds.begin(), middle, speeds.end());
    summary.tokens_per_second = *middle;
  }

 private:
  RunObserver& next_;
  JobUploads& uploads_;
  std::optional<double> loss_;
  std::optional<double> validation_loss_;
  std::optional<double> validation_accuracy_;
  double lost_token_share_ = 0;
  std::deque<double> speeds_;
};

// The list of faults that have injected is of this script only.
absl::Status write_faults(Files& files, const JobFolder& folder, const FaultScript& script) {
  const std::string text = to_toml(script);
  const auto there = read_file(files, folder.faults(), kFaultScriptBytesMax);
  if (there.ok() && *there == text) return absl::OkStatus();
  const std::string injected = injected_faults_path(folder.faults());
  if (files.exists(injected)) RETURN_IF_ERROR(files.remove_file(injected));
  return replace_file(files, folder.faults(), text);
}

ProtectedRunOptions protected_options(const JobRunOptions& options, const JobFolder& folder) {
  const JobConfig& config = options.config;
  ProtectedRunOptions run;
  run.program = options.program;
  run.worker = options.worker;
  run.worker_arguments = worker_arguments(folder.path(), options.build);
  run.environment = process_environment(config);
  run.out = folder.path();
  run.term = folder.term();
  run.kept_fd = folder.lock_fd();
  run.steps = Step(config.train.steps);
  run.address = options.address;
  run.keys = options.keys;
  run.node_cpus = config.run.node_cpus;
  run.orders = options.orders;
  run.config = folder.config();
  run.controller = controller_options(config);
  run.agent = agent_options(config);
  run.faults = options.faults;
  run.faults_path = folder.faults();
  return run;
}

// The loss of `step` in the loss curve of an earlier run; nullopt if it is not there.
std::optional<double> loss_in_curve(Files& files, const std::string& path, Step step) {
  const auto file = files.open(path);
  if (!file.ok()) return std::nullopt;
  const int64_t from = std::max<int64_t>(0, (*file)->size() - kCurveTailBytes);
  std::string tail(static_cast<size_t>((*file)->size() - from), '\0');
  if (!(*file)->read_at(from, std::as_writable_bytes(std::span(tail))).ok()) return std::nullopt;
  std::optional<double> found;
  const std::vector<std::string> lines = absl::StrSplit(tail, '\n');
  for (const std::string& line : lines) {
    const std::vector<std::string> cells = absl::StrSplit(line, ',');
    double loss = 0;
    if (cells.size() == 3 && cells[0] == absl::StrCat(step.value) &&
        absl::SimpleAtod(cells[1], &loss))
      found = loss;
  }
  return found;
}

// Step, digest, samples and place of the newest checkpoint.
absl::Status describe_checkpoint(Files& files, const JobConfig& config, const JobFolder& folder,
                                 RunSummary& summary) {
  ASSIGN_OR_RETURN(const auto reader, CheckpointReader::open(files, folder.latest_checkpoint()));
  ASSIGN_OR_RETURN(const Fingerprint digest, reader->digest());
  summary.digest = to_hex(digest);
  summary.steps = reader->position().step;
  summary.samples_trained = reader->position().samples;
  summary.samples_doubled = reader->position().samples - summary.steps.value *
                                                             config.train.micro_batches *
                                                             config.train.micro_batch_size;
  // By its own name: `latest` will point to something else one day.
  summary.checkpoint =
      join_path(parent_directory(folder.latest_checkpoint()), step_directory_name(summary.steps));
  if (!summary.validation_loss && reader->position().validation_loss >= 0) {
    summary.validation_loss = reader->position().validation_loss;
  }
  // Who trained it knows itself; a host may have missed some of it, a failed job has trained on.
  if (summary.status != RunStatus::kFailed) {
    LanesHistory history(std::move(summary.membership));
    history.follow_checkpoint(summary.steps, reader->position().trained_on);
    summary.membership = history.changes();
  }
  return absl::OkStatus();
}

// nullopt if there is something to do: steps are missing, or the checkpoint that has them is
// damaged.
std::optional<RunSummary> nothing_to_do(Files& files, const JobRunOptions& options,
                                        const JobFolder& folder, RunObserver& observer) {
  if (folder.step() < Step(std::max<int64_t>(1, options.config.train.steps))) return std::nullopt;
  RunSummary summary;
  summary.status = RunStatus::kNothingToDo;
  if (const absl::Status status = describe_checkpoint(files, options.config, folder, summary);
      !status.ok()) {
    observer.on_say(absl::StrCat("the newest checkpoint cannot be used: ", status.message()));
    return std::nullopt;
  }
  summary.exit_code = 0;
  summary.reason = absl::StrCat("the newest checkpoint has ", summary.steps.value, " of ",
                                options.config.train.steps, " steps");
  return summary;
}

// nullopt if there is something to do: the job has not ended just as this host was to take it over.
std::optional<RunSummary> ended_meanwhile(Files& files, const JobRunOptions& options,
                                          const JobFolder& folder) {
  const std::optional<std::string>& how = folder.end_meanwhile();
  if (!how) return std::nullopt;
  RunSummary summary = summary_of_end(*how, "the job has ended without this host: " + *how);
  (void)describe_checkpoint(files, options.config, folder, summary);  // there may be none
  return summary;
}

RunSummary summarize(Files& files, const JobRunOptions& options, const JobFolder& folder,
                     const RunOutcome& outcome, const Listener& listener) {
  RunSummary summary;
  summary.status = outcome.status;
  summary.exit_code = outcome.exit_code;
  summary.reason = outcome.reason;
  summary.restarts = outcome.restarts;
  summary.failures = outcome.failures;
  summary.membership = outcome.membership;
  summary.moves = outcome.moves;
  summary.role_moves = outcome.role_moves;
  summary.stragglers = outcome.stragglers;
  summary.slow_links = outcome.slow_links;
  listener.fill(summary);
  // The job goes on, and its newest checkpoint changes while it is read.
  if (outcome.status == RunStatus::kTakenOver) return summary;
  absl::Status status = describe_checkpoint(files, options.config, folder, summary);
  if (status.ok() && outcome.status == RunStatus::kFinished && summary.steps < outcome.steps) {
    status = NotFound(
        absl::StrCat("it is of step ", summary.steps.value, ", not of step ", outcome.steps.value));
  }
  if (outcome.status == RunStatus::kFailed) summary.steps = outcome.steps;
  // Stopped before the first checkpoint: nothing is wrong, there just is none.
  const bool may_be_missing = outcome.status != RunStatus::kFinished && absl::IsNotFound(status);
  if (!status.ok() && !may_be_missing && outcome.exit_code == 0) {
    summary.status = RunStatus::kFailed;
    summary.exit_code = 1;
    summary.reason =
        absl::StrCat("the newest checkpoint is not the one to end with: ", status.message());
  }
  return summary;
}

// Without orders a signal to the process ends such a wait.
StoreWait store_wait_of(const JobRunOptions& options) {
  if (options.orders == nullptr) return {};
  return {.is_stopped = [orders = options.orders] { return orders->is_end_wanted(); }};
}

}  // namespace

std::vector<std::string> worker_arguments(const std::string& out, const std::string& build) {
  return {"train", "--build", build, "--config", join_path(out, "config.toml"), "--out", out};
}

// Libraries that start threads by themselves take their number from here, before main(). The UCX
// settings must be there before exec too: without them its hooks crash under sanitizers, and it
// stops a crashed process to ask for a debugger. cuBLAS adds in the same order in every run only
// with workspaces of its own.
std::vector<std::pair<std::string, std::string>> process_environment(const JobConfig& config) {
  const std::string threads = absl::StrCat(config.run.threads);
  return {{"OMP_NUM_THREADS", threads},
          {"MKL_NUM_THREADS", threads},
          {"OPENBLAS_NUM_THREADS", threads},
          {"OMP_WAIT_POLICY", "passive"},
          {"UCX_MEM_EVENTS", "n"},
          {"UCX_HANDLE_ERRORS", "none"},
          {"CUBLAS_WORKSPACE_CONFIG", ":4096:8"}};
}

absl::StatusOr<RunSummary> run_job(Files& files, Clock& clock, const JobRunOptions& options,
                                   RunObserver& observer) {
  const absl::Duration began = clock.now();
  if (!options.address.empty() && options.config.run.node_cpus > 0)
    return InvalidInput(absl::StrCat("run.node_cpus: found ", options.config.run.node_cpus,
                                     ", allowed: 0 where nodes are machines of their own"));
  const StoreWait store_wait = store_wait_of(options);
  ASSIGN_OR_RETURN(const std::unique_ptr<JobFolder> folder,
                   JobFolder::prepare(files, options.config, options.out,
                                      {options.build, !options.address.empty(), store_wait}));
  for (const std::string& skipped : folder->skipped())
    observer.on_say("skipped checkpoint: " + skipped);
  for (const std::string& brought : folder->brought()) observer.on_say(brought);
  JobUploads uploads(files, options.config.checkpoint, folder->path(), folder->term(),
                     folder->damaged_in_store(),
                     [&](const std::string& line) { observer.on_say(line); });
  std::optional<RunSummary> summary = ended_meanwhile(files, options, *folder);
  if (!summary) summary = nothing_to_do(files, options, *folder, observer);
  if (summary) {
    // Whoever still lives of the job has nothing to do, either.
    (void)mark_job_ended(files, folder->path(), folder->term(),
                         folder->end_meanwhile().value_or(kJobFinished));
  } else {
    const bool takes_over = folder->term().hosts_before > 0;
    if (takes_over)
      observer.on_say(absl::StrCat("takes the job over as its host number ",
                                   folder->term().hosts_before, " after the first"));
    if (!strategy_of(options.config).is_exact)
      observer.on_say(absl::StrCat("LOSSY: with protection.strategy = \"",
                                   std::string(to_string(options.config.protection.strategy)),
                                   "\" experts go back further than the rest after a loss; the "
                                   "summary says which share of their tokens that cost"));
    Listener listener(observer, uploads);
    RETURN_IF_ERROR(write_faults(files, *folder, options.faults));
    RETURN_IF_ERROR((takes_over ? keep_job_tokens : prepare_job_tokens)(
        token_source(options.config.data), folder->token_cache()));
    ASSIGN_OR_RETURN(const RunOutcome outcome,
                     run_protected(files, clock, protected_options(options, *folder), listener));
    summary = summarize(files, options, *folder, outcome, listener);
  }
  if (summary->status != RunStatus::kTakenOver) uploads.finish(store_wait);
  if (!summary->final_loss)
    summary->final_loss = loss_in_curve(files, folder->curve(), summary->steps);
  const Strategy strategy = strategy_of(options.config);
  summary->strategy = to_string(strategy.kind);
  summary->is_exact = strategy.is_exact;
  summary->out = folder->path();
  summary->metrics = folder->metrics();
  summary->curve = folder->curve();
  summary->seconds = absl::ToDoubleSeconds(clock.now() - began);
  return *std::move(summary);
}

}  // namespace evermoe
