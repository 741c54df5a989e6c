// evermoe run: a whole job on this machine.
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/limits.h"
#include "cli/build_fingerprint.h"
#include "cli/commands.h"
#include "cli/config_arguments.h"
#include "cli/machine_room.h"
#include "cli/progress_view.h"
#include "cli/worker_program.h"
#include "cluster/job_run.h"
#include "cluster/protection_fit.h"
#include "config/job_data.h"
#include "faults/fault_script.h"

namespace evermoe {
namespace {

struct RunOptions {
  ConfigArguments config;
  std::string out;
  std::string faults;
  std::string worker;
  int nodes = 0;    // 0: as configured
  int spares = -1;  // -1: as configured
  bool json = false;
  bool quiet = false;
};

// out/NAME for a configuration .../NAME.toml.
std::string default_out(const std::string& config_path) {
  const std::string name = base_name(config_path);
  const size_t dot = name.rfind('.');
  return join_path("out", dot == std::string::npos || dot == 0 ? name : name.substr(0, dot));
}

int terminal_columns(int fd) {
  winsize size = {};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

ProgressOptions progress_options(const RunOptions& options, const JobConfig& config) {
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
  std::cerr << "evermoe: " << line << "\n";
}

absl::StatusOr<JobConfig> load(const RunOptions& options) {
  ConfigArguments config = options.config;
  if (options.nodes > 0) config.settings.push_back(absl::StrCat("run.nodes=", options.nodes));
  if (options.spares >= 0) config.settings.push_back(absl::StrCat("run.spares=", options.spares));
  ASSIGN_OR_RETURN(JobConfig loaded, config.load());
  if (loaded.protection.strategy == ProtectionStrategy::kNone || loaded.parallel.world_size() == 1) return loaded;
  // Evaluations fill the log, too: "all" of them counted, if the text says how many that is.
  JobConfig counted = loaded;
  if (loaded.evaluate.micro_batches == 0 && loaded.data.tokenizer == "bytes") {
    ASSIGN_OR_RETURN(counted.evaluate.micro_batches, evaluation_micro_batches_max(loaded));
  }
  ASSIGN_OR_RETURN(const ProtectionFit fit, fit_protection(counted));
  if (!fit.why.empty()) std::cerr << "evermoe: " << fit.why << "\n";
  loaded.protection.copies = fit.copies;
  return loaded;
}

absl::StatusOr<FaultScript> load_faults(const std::string& path, const JobConfig& config) {
  if (path.empty()) return FaultScript();
  const FaultLimits limits{{config.parallel.lanes.begin(), config.parallel.lanes.end()},
                           static_cast<int>(config.run.nodes + config.run.spares)};
  return load_fault_script(real_files(), path, limits);
}

absl::StatusOr<int> run(const RunOptions& options) {
  JobRunOptions job;
  ASSIGN_OR_RETURN(job.config, load(options));
  ASSIGN_OR_RETURN(job.faults, load_faults(options.faults, job.config));
  RETURN_IF_ERROR(check_room(job.config, machine_room()));
  ASSIGN_OR_RETURN(job.worker, find_worker(options.worker));
  job.build = build_fingerprint();
  job.out = options.out.empty() ? default_out(options.config.path) : options.out;
  // With --json the last line of stdout is the result alone.
  ProgressView progress(options.json ? std::cerr : std::cout, real_clock(), progress_options(options, job.config));
  const absl::StatusOr<RunSummary> summary = run_job(real_files(), real_clock(), job, progress);
  progress.close();
  if (!summary.ok()) return summary.status();
  if (summary->status == RunStatus::kFailed) print_failure(*summary);
  if (options.json) std::cout << to_json(*summary) << "\n";
  else if (!options.quiet && summary->exit_code != 2) std::cout << to_text(*summary);
  return summary->exit_code;
}

}  // namespace

void add_run_command(CLI::App& app, CommandTable& commands) {
  const auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "Train: start or resume a job on this machine, and replace the workers that fail.");
  command->add_option("CONFIG", options->config.path, "the job's configuration")->type_name("FILE.toml")->required();
  options->config.add_settings(*command);
  command->add_option("--out", options->out, "output folder; a job that is found there is resumed (default: out/NAME for NAME.toml)")->type_name("DIR");
  command->add_option("--nodes", options->nodes, "simulated nodes, each with an agent (run.nodes)")->type_name("N")->check(CLI::Range(1, kJobNodesMax));
  command->add_option("--spares", options->spares, "spare nodes that replace failed ones (run.spares)")->type_name("N")->check(CLI::Range(0, kJobNodesMax));
  command->add_option("--faults", options->faults, "faults to rehearse (docs/recovery.md)")->type_name("FILE.toml");
  command->add_option("--worker", options->worker, "the workers' program (default: evermoe-worker beside evermoe, or EVERMOE_WORKER)")->type_name("PROGRAM");
  command->add_flag("--json", options->json, "print the summary as one JSON object (docs/run-summary.md), and progress on standard error");
  command->add_flag("--quiet", options->quiet, "show no progress");
  commands[command] = [options] { return run(*options); };
}

}  // namespace evermoe
