#include "cli/experiment/experiment_runs.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "cli/experiment/experiment_results.h"
#include "cli/experiment/failure_schedule.h"
#include "config/job_config.h"
#include "config/job_topology.h"
#include "control/launch/signal_inbox.h"
#include "env/clock.h"
#include "env/files.h"
#include "env/process.h"
#include "faults/fault_script.h"

namespace evermoe {
namespace {

constexpr int64_t kResultBytesMax = 64 << 20;
constexpr int64_t kMetricsBytesMax = int64_t{1} << 30;
// Failures are drawn for a job that takes so many times its undisturbed time.
constexpr double kHorizon = 100;
constexpr absl::Duration kStopTime = absl::Seconds(30);

struct RunEnd {
  nlohmann::json summary;  // null: it ended without one, or was killed
  std::string metrics;
  int signal = 0;  // that interrupted the experiment
};

class ExperimentRunner {
 public:
  ExperimentRunner(const ExperimentOptions& options, Experiment experiment, JobConfig job)
      : options_(options),
        experiment_(std::move(experiment)),
        job_(std::move(job)),
        topology_(topology_of(job_)) {}

  absl::StatusOr<ExperimentOutcome> run(const std::string& text) {
    RETURN_IF_ERROR(claim_folder(text));
    ASSIGN_OR_RETURN(inbox_, SignalInbox::open());
    ASSIGN_OR_RETURN(program_, real_files().read_symlink("/proc/self/exe"));
    total_ = static_cast<int>(experiment_.failures.size() * experiment_.seeds.size() *
                              experiment_.strategies.size());
    ExperimentOutcome outcome;
    for (size_t process = 0; process < experiment_.failures.size(); ++process) {
      for (const uint64_t seed : experiment_.seeds) {
        RETURN_IF_ERROR(run_turn(process, seed, outcome));
        if (outcome.signal != 0) return outcome;
      }
    }
    return outcome;
  }

 private:
  std::string at(const std::string& name) const { return join_path(options_.out, name); }

  // The folder is this experiment's from now on.
  absl::Status claim_folder(const std::string& text) {
    Files& files = real_files();
    RETURN_IF_ERROR(files.create_directories(at("results")));
    ASSIGN_OR_RETURN(const std::string config,
                     read_file(files, experiment_.config, kExperimentBytesMax));
    const nlohmann::json identity = {{"version", 1}, {"file", text}, {"config", config}};
    const absl::StatusOr<std::string> found =
        read_file(files, at("experiment.json"), kResultBytesMax);
    if (!found.ok()) return replace_file(files, at("experiment.json"), identity.dump());
    if (nlohmann::json::parse(*found, nullptr, false) == identity) return absl::OkStatus();
    return InvalidInput(absl::StrCat("--out: found ", options_.out,
                                     " of another experiment, or version of it, allowed: its own "
                                     "or a new folder"));
  }

  // A result that was written before, or null.
  nlohmann::json stored(const std::string& name) const {
    const absl::StatusOr<std::string> text =
        read_file(real_files(), at("results/" + name), kResultBytesMax);
    if (!text.ok()) return nullptr;
    const nlohmann::json value = nlohmann::json::parse(*text, nullptr, false);
    return value.is_discarded() ? nlohmann::json(nullptr) : value;
  }

  absl::Status store(const std::string& name, const nlohmann::json& value) const {
    return replace_file(real_files(), at("results/" + name), value.dump());
  }

  absl::Status run_turn(size_t process, uint64_t seed, ExperimentOutcome& outcome) {
    const std::string turn = absl::StrCat(process, "-", seed, "-");
    nlohmann::json measured = stored(turn + "yardstick.json");
    if (measured.is_null()) {
      ASSIGN_OR_RETURN(measured, measure_yardstick(outcome.signal));
      if (outcome.signal != 0) return absl::OkStatus();
      RETURN_IF_ERROR(store(turn + "yardstick.json", measured));
    }
    const Yardstick yardstick{measured.at("step_seconds"), measured.at("beside_seconds")};
    const FailureProcess& failures = experiment_.failures[process];
    RETURN_IF_ERROR(write_faults(failures, seed, yardstick));
    for (const std::string& strategy : experiment_.strategies) {
      const std::string name = absl::StrCat(turn, strategy, ".json");
      nlohmann::json result = stored(name);
      if (result.is_null()) {
        ASSIGN_OR_RETURN(const RunEnd end, run_job({"protection.strategy=" + strategy}, true));
        outcome.signal = end.signal;
        if (end.signal != 0) return absl::OkStatus();
        result = result_of(end, strategy, failures.name, seed, yardstick);
        RETURN_IF_ERROR(store(name, result));
      }
      outcome.runs.push_back(result);
      show(result, static_cast<int>(outcome.runs.size()));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<nlohmann::json> measure_yardstick(int& signal) {
    ASSIGN_OR_RETURN(const RunEnd end,
                     run_job({"protection.strategy=none", "checkpoint.every_steps=0"}, false));
    signal = end.signal;
    if (signal != 0) return nlohmann::json(nullptr);
    if (!end.summary.is_object() || end.summary.value("status", "") != "finished")
      return absl::FailedPreconditionError(
          absl::StrCat("the undisturbed run did not finish, see ", at("run.log")));
    ASSIGN_OR_RETURN(const Yardstick yardstick,
                     yardstick_of(end.summary.at("seconds"), job_.train.steps, end.metrics));
    return nlohmann::json{{"step_seconds", yardstick.step_seconds},
                          {"beside_seconds", yardstick.beside_seconds},
                          {"digest", end.summary.at("digest")}};
  }

  absl::Status write_faults(const FailureProcess& process, uint64_t seed,
                            const Yardstick& yardstick) const {
    std::vector<double> gaps;
    if (!process.trace.empty()) {
      ASSIGN_OR_RETURN(gaps, loss_gaps(real_files(), process.trace));
    }
    const double horizon = kHorizon * static_cast<double>(job_.train.steps);
    const std::vector<FailureTime> failures =
        draw_failures(process, gaps, seed, topology_.world_size(), horizon);
    return replace_file(
        real_files(), at("faults.toml"),
        to_toml(faults_of(failures, topology_, yardstick.step_seconds, yardstick.beside_seconds)));
  }

  std::vector<std::string> arguments(const std::vector<std::string>& settings, bool faults) const {
    std::vector<std::string> words = {"run",     experiment_.config, "--out",
                                      at("job"), "--json",           "--quiet"};
    if (faults) words.insert(words.end(), {"--faults", at("faults.toml")});
    for (const auto* list : {&experiment_.settings, &settings}) {
      for (const std::string& setting : *list) words.insert(words.end(), {"--set", setting});
    }
    words.insert(words.end(), {"--set", "evaluate.every_steps=0"});
    return words;
  }

  absl::StatusOr<RunEnd> run_job(const std::vector<std::string>& settings, bool faults) {
    RETURN_IF_ERROR(remove_tree(real_files(), at("job")));
    SpawnOptions spawn_options{.program = program_, .arguments = arguments(settings, faults)};
    // Ctrl-C is this process's, which ends the run in its own way.
    spawn_options.own_group = true;
    spawn_options.parent_death_signal = SIGTERM;
    const int out =
        ::open(at("summary.json").c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);
    const absl::Cleanup close_out = [out] { ::close(out); };
    const int log = ::open(at("run.log").c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);
    const absl::Cleanup close_log = [log] { ::close(log); };
    if (out < 0 || log < 0)
      return InvalidInput(absl::StrCat("--out: files cannot be created in ", options_.out));
    spawn_options.stdout_fd = out;
    spawn_options.stderr_fd = log;
    ASSIGN_OR_RETURN(const std::unique_ptr<ChildProcess> child, spawn(spawn_options));
    RunEnd end;
    ASSIGN_OR_RETURN(const bool ended, await(*child, end.signal));
    if (ended && end.signal == 0) RETURN_IF_ERROR(collect(*child, end));
    RETURN_IF_ERROR(remove_tree(real_files(), at("job")));
    return end;
  }

  // False: it was stopped. `signal`: what interrupted the experiment.
  absl::StatusOr<bool> await(ChildProcess& child, int& signal) {
    pollfd waits[] = {{child.exit_fd(), POLLIN, 0}, {inbox_->fd(), POLLIN, 0}};
    const absl::Duration deadline = real_clock().now() + absl::Seconds(options_.run_seconds_max);
    while (!child.try_wait()) {
      const double left = absl::ToDoubleMilliseconds(deadline - real_clock().now());
      if (left > 0) ::poll(waits, 2, static_cast<int>(std::min(left + 1, 1e9)));
      for (const int taken : inbox_->take()) signal = taken;
      if (signal == 0 && left > 0) continue;
      RETURN_IF_ERROR(stop(child));
      return false;
    }
    return true;
  }

  // A drained job has saved and ended all of its processes.
  static absl::Status stop(ChildProcess& child) {
    if (child.try_wait()) return absl::OkStatus();
    RETURN_IF_ERROR(child.kill(SIGTERM));
    if (child.wait(kStopTime).ok()) return absl::OkStatus();
    RETURN_IF_ERROR(child.kill_group(SIGKILL));
    return child.wait(kStopTime).status();
  }

  absl::Status collect(ChildProcess& child, RunEnd& end) const {
    const std::optional<ExitStatus> status = child.try_wait();
    ASSIGN_OR_RETURN(const std::string printed,
                     read_file(real_files(), at("summary.json"), kResultBytesMax));
    end.summary = nlohmann::json::parse(printed, nullptr, false);
    if (!end.summary.is_object()) end.summary = nullptr;
    if (status && status->code == 2 && status->signal == 0) {
      ASSIGN_OR_RETURN(const std::string log,
                       read_file(real_files(), at("run.log"), kResultBytesMax));
      return InvalidInput(absl::StrCat("experiment: a run was refused: ", log));
    }
    const absl::StatusOr<std::string> metrics =
        read_file(real_files(), at("job/metrics.jsonl"), kMetricsBytesMax);
    if (metrics.ok()) end.metrics = *metrics;
    return absl::OkStatus();
  }

  nlohmann::json result_of(const RunEnd& end, const std::string& strategy,
                           const std::string& process, uint64_t seed,
                           const Yardstick& yardstick) const {
    nlohmann::json result = {{"strategy", strategy},
                             {"failure_process", process},
                             {"seed", seed},
                             {"ettr", nullptr},
                             {"step_seconds", yardstick.step_seconds}};
    for (const char* name : {"status", "lost_token_share", "is_exact", "digest", "steps", "seconds",
                             "final_loss", "restarts", "failures"})
      result[name] = end.summary.is_object() ? end.summary.at(name) : nlohmann::json(nullptr);
    add_sums(result);
    if (!end.summary.is_object()) result["status"] = "unfinished";
    if (result["status"] != "finished") return result;
    const std::optional<double> ettr =
        ettr_of(end.summary.at("seconds"), job_.train.steps, yardstick);
    if (ettr) result["ettr"] = *ettr;
    return result;
  }

  static void add_sums(nlohmann::json& result) {
    for (const char* name : {"failure_count", "seconds_lost", "recomputed_steps"})
      result[name] = nullptr;
    if (!result["failures"].is_array()) return;
    double seconds = 0;
    int64_t steps = 0;
    for (const nlohmann::json& failure : result["failures"]) {
      if (failure.at("seconds_lost").is_number()) seconds += failure["seconds_lost"].get<double>();
      if (failure.at("recomputed_steps").is_number())
        steps += failure["recomputed_steps"].get<int64_t>();
    }
    result["failure_count"] = result["failures"].size();
    result["seconds_lost"] = seconds;
    result["recomputed_steps"] = steps;
  }

  void show(const nlohmann::json& run, int number) const {
    const std::string ettr =
        run["ettr"].is_number() ? absl::StrFormat("%.3f", run["ettr"].get<double>()) : "unknown";
    std::cerr << absl::StrFormat("run %d of %d: %s, seed %d, %s: %s, ETTR %s\n", number, total_,
                                 run["failure_process"].get<std::string>(),
                                 run["seed"].get<int64_t>(), run["strategy"].get<std::string>(),
                                 run["status"].get<std::string>(), ettr);
  }

  const ExperimentOptions& options_;
  const Experiment experiment_;
  const JobConfig job_;
  const Topology topology_;
  std::unique_ptr<SignalInbox> inbox_;
  std::string program_;
  int total_ = 0;
};

}  // namespace

absl::StatusOr<ExperimentOutcome> run_experiment(const ExperimentOptions& options) {
  const absl::StatusOr<std::string> text =
      read_file(real_files(), options.file, kExperimentBytesMax);
  if (!text.ok()) return InvalidInput(std::string(text.status().message()));
  ASSIGN_OR_RETURN(Experiment experiment, parse_experiment(*text, options.file));
  ASSIGN_OR_RETURN(JobConfig job, load_config(experiment.config, experiment.settings));
  for (const FailureProcess& process : experiment.failures) {
    if (!process.trace.empty()) RETURN_IF_ERROR(loss_gaps(real_files(), process.trace).status());
  }
  return ExperimentRunner(options, std::move(experiment), std::move(job)).run(*text);
}

}  // namespace evermoe
