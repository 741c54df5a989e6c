#include "cli/experiment/experiment_runs.h"

#include <algorithm>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/build_fingerprint.h"
#include "base/error.h"
#include "cli/experiment/experiment_folder.h"
#include "cli/experiment/experiment_results.h"
#include "cli/experiment/failure_schedule.h"
#include "cli/experiment/job_process.h"
#include "cli/experiment/profile_runs.h"
#include "cli/experiment/run_record.h"
#include "config/job_config.h"
#include "config/job_topology.h"
#include "env/files.h"
#include "faults/fault_script.h"
#include "planner/measured/measured_run.h"
#include "protection/strategy/strategy_names.h"

namespace evermoe {
namespace {

// Failures are drawn for a job that takes so many times its undisturbed time.
constexpr double kHorizon = 100;
constexpr int64_t kYardstickSteps = 20;  // at least, of one after a run

std::vector<StrategyKind> strategies_of(const std::vector<ComparedSystem>& systems) {
  std::vector<StrategyKind> kinds;
  for (const ComparedSystem& system : systems) {
    if (system.is_strategy) kinds.push_back(*strategy_kind_of(system.name));
  }
  return kinds;
}

// The job of each system. They differ in how a job lives through failures, not in what it is.
absl::StatusOr<std::vector<JobConfig>> jobs_of(const Experiment& experiment, const JobConfig& job) {
  std::vector<JobConfig> jobs;
  for (const ComparedSystem& system : experiment.systems) {
    std::vector<std::string> settings = experiment.settings;
    settings.insert(settings.end(), system.settings.begin(), system.settings.end());
    ASSIGN_OR_RETURN(JobConfig own, load_config(experiment.config, settings));
    const bool is_comparable = own.model == job.model && own.data == job.data &&
                               own.parallel == job.parallel && own.run.nodes == job.run.nodes &&
                               own.train == job.train;
    if (!is_comparable)
      return InvalidInput(
          absl::StrCat("systems.settings: found other ones of model, train, data, "
                       "parallel or run.nodes for ",
                       system.name, ", allowed: those of [model] alone, for all systems"));
    jobs.push_back(std::move(own));
  }
  return jobs;
}

// What a failure of the process takes.
LostKind lost_in(const FailureProcess& process) {
  return process.lost_together > 1 ? LostKind::kNode : LostKind::kWorker;
}

std::string ettr_text(const nlohmann::json& value) {
  return value.is_number() ? absl::StrFormat("%.3f", value.get<double>()) : "unknown";
}

class ExperimentRunner {
 public:
  ExperimentRunner(const ExperimentOptions& options, Experiment experiment, JobConfig job,
                   std::vector<JobConfig> jobs)
      : options_(options),
        experiment_(std::move(experiment)),
        job_(std::move(job)),
        jobs_(std::move(jobs)),
        topology_(topology_of(job_)),
        folder_(options.out) {}

  absl::StatusOr<ExperimentOutcome> run(const std::string& text) {
    RETURN_IF_ERROR(check_traces());
    ExperimentOutcome outcome;
    if (!options_.profile.empty()) {
      if (options_.profile_rounds == 0) return with_no_rounds(options_.profile);
      ASSIGN_OR_RETURN(outcome.profile, given_profile(options_.profile));
    }
    RETURN_IF_ERROR(folder_.claim(experiment_, text));
    ASSIGN_OR_RETURN(runner_, JobRunner::open(options_.out, options_.run_seconds_max));
    RETURN_IF_ERROR(find_profile(outcome));
    if (outcome.signal != 0) return outcome;
    total_ = static_cast<int>(experiment_.failures.size() * experiment_.seeds.size() *
                              experiment_.systems.size());
    for (size_t process = 0; process < experiment_.failures.size(); ++process) {
      for (const uint64_t seed : experiment_.seeds) {
        RETURN_IF_ERROR(run_turn(process, seed, outcome));
        if (outcome.signal != 0) return outcome;
      }
    }
    return outcome;
  }

 private:
  // Before anything is made: each seed draws other nodes of a trace.
  absl::Status check_traces() const {
    for (const FailureProcess& process : experiment_.failures) {
      for (const uint64_t seed : experiment_.seeds) RETURN_IF_ERROR(drawn(process, seed).status());
    }
    return absl::OkStatus();
  }

  // ---- The profile

  std::vector<LostKind> lost_kinds() const {
    std::vector<LostKind> kinds;
    for (const FailureProcess& process : experiment_.failures) {
      if (!process.are_gone) kinds.push_back(lost_in(process));
    }
    return kinds;
  }

  absl::Status check(const RuntimeProfile& profile, const std::string& path) const {
    if (profile.build != build_fingerprint())
      return InvalidInput(absl::StrCat(path, ": found a profile of build ", profile.build,
                                       ", allowed: one of this build, ", build_fingerprint()));
    for (size_t i = 0; i < jobs_.size(); ++i) {
      if (experiment_.systems[i].is_strategy)
        RETURN_IF_ERROR(annotate(check_profile(profile, jobs_[i], lost_kinds()), path));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<RuntimeProfile> given_profile(const std::string& path) const {
    ASSIGN_OR_RETURN(RuntimeProfile profile, load_runtime_profile(real_files(), path));
    RETURN_IF_ERROR(check(profile, path));
    return profile;
  }

  absl::Status find_profile(ExperimentOutcome& outcome) {
    const std::string kept = folder_.at("profile.toml");
    if (real_files().exists(kept)) {
      if (options_.profile_rounds == 0) return with_no_rounds(kept);
      ASSIGN_OR_RETURN(RuntimeProfile profile, given_profile(kept));
      if (outcome.profile && *outcome.profile != profile)
        return InvalidInput(absl::StrCat("--profile: found ", options_.profile, ", which is not ",
                                         kept, ", allowed: the folder's, or a new folder"));
      outcome.profile = std::move(profile);
      return absl::OkStatus();
    }
    const bool is_wanted = options_.profile_rounds > 0 && !lost_kinds().empty() &&
                           !strategies_of(experiment_.systems).empty();
    if (!outcome.profile && is_wanted) RETURN_IF_ERROR(measure(outcome));
    if (!outcome.profile) return absl::OkStatus();
    return replace_file(real_files(), kept, to_toml(*outcome.profile));
  }

  static absl::Status with_no_rounds(const std::string& path) {
    return InvalidInput(absl::StrCat("--profile-rounds: found 0 with ", path,
                                     ", allowed: 1 or more, or 0 without a profile"));
  }

  absl::Status measure(ExperimentOutcome& outcome) {
    const ProfileRunOptions how{.config = experiment_.config,
                                .settings = experiment_.settings,
                                .strategies = strategies_of(experiment_.systems),
                                .rounds = options_.profile_rounds};
    ASSIGN_OR_RETURN(ProfileOutcome measured, measure_profile(how, job_, options_.out, *runner_));
    outcome.signal = measured.signal;
    if (outcome.signal != 0) return absl::OkStatus();
    RETURN_IF_ERROR(check(measured.profile, "the measured profile"));
    outcome.profile = std::move(measured.profile);
    return absl::OkStatus();
  }

  // ---- The runs

  absl::Status run_turn(size_t process, uint64_t seed, ExperimentOutcome& outcome) {
    const std::string turn = absl::StrCat(process, "-", seed, "-");
    ASSIGN_OR_RETURN(const Yardstick first, first_yardstick(turn, outcome.signal));
    if (outcome.signal != 0) return absl::OkStatus();
    const FailureProcess& failures = experiment_.failures[process];
    ASSIGN_OR_RETURN(const std::vector<FailureTime> times, drawn(failures, seed));
    RETURN_IF_ERROR(replace_file(
        real_files(), folder_.at("faults.toml"),
        to_toml(faults_of(times, topology_, first.step_seconds, first.beside_seconds))));
    for (size_t i = 0; i < jobs_.size(); ++i) {
      const std::string name = absl::StrCat(turn, experiment_.systems[i].name, ".json");
      nlohmann::json record = folder_.result(name);
      if (record.is_null()) {
        ASSIGN_OR_RETURN(record, run_system(i, failures.name, seed, outcome.signal));
        if (outcome.signal != 0) return absl::OkStatus();
        // What did not finish is run again when the experiment goes on.
        if (record["status"] == "finished") RETURN_IF_ERROR(folder_.keep_result(name, record));
      }
      add_no_prediction(record);
      if (outcome.profile && experiment_.systems[i].is_strategy && !failures.are_gone)
        RETURN_IF_ERROR(predict(*outcome.profile, jobs_[i], lost_in(failures),
                                in_steps_of(record, times, first), record));
      outcome.runs.push_back(record);
      show(record, static_cast<int>(outcome.runs.size()));
    }
    return absl::OkStatus();
  }

  // A turn's first yardstick is the whole job: its seconds say when failures come, and its digest
  // is that of whoever loses nothing.
  absl::StatusOr<Yardstick> first_yardstick(const std::string& turn, int& signal) {
    nlohmann::json measured = folder_.result(turn + "yardstick.json");
    if (measured.is_null()) {
      ASSIGN_OR_RETURN(measured, measure_yardstick(job_.train.steps, signal));
      if (signal != 0) return Yardstick();
      RETURN_IF_ERROR(folder_.keep_result(turn + "yardstick.json", measured));
      newest_ = seconds_of(measured);
    }
    return seconds_of(measured);
  }

  // The run between two yardsticks; null where a signal came.
  absl::StatusOr<nlohmann::json> run_system(size_t which, const std::string& process, uint64_t seed,
                                            int& signal) {
    Yardsticks around;
    // An experiment that goes on has none of this hour.
    if (!newest_) RETURN_IF_ERROR(measure_newest(signal));
    if (signal != 0) return nlohmann::json(nullptr);
    around.before = *newest_;
    const ComparedSystem& system = experiment_.systems[which];
    ASSIGN_OR_RETURN(const JobEnd end, run_job(system.settings, true));
    signal = end.signal;
    if (signal == 0) RETURN_IF_ERROR(measure_newest(signal));
    if (signal != 0) return nlohmann::json(nullptr);
    around.after = *newest_;
    return run_record(end, system.name, jobs_[which], process, seed, around);
  }

  absl::Status measure_newest(int& signal) {
    const auto share =
        static_cast<int64_t>(experiment_.yardstick_share * static_cast<double>(job_.train.steps));
    const int64_t steps = std::max(kYardstickSteps, share);
    ASSIGN_OR_RETURN(const nlohmann::json measured,
                     measure_yardstick(std::min(steps, job_.train.steps), signal));
    if (signal == 0) newest_ = seconds_of(measured);
    return absl::OkStatus();
  }

  static Yardstick seconds_of(const nlohmann::json& measured) {
    return {measured.at("step_seconds"), measured.at("beside_seconds")};
  }

  absl::StatusOr<nlohmann::json> measure_yardstick(int64_t steps, int& signal) {
    ASSIGN_OR_RETURN(const JobEnd end,
                     run_job({"protection.strategy=none", "checkpoint.every_steps=0",
                              absl::StrCat("train.steps=", steps)},
                             false));
    signal = end.signal;
    if (signal != 0) return nlohmann::json(nullptr);
    if (!end.summary.is_object() || end.summary.value("status", "") != "finished")
      return absl::FailedPreconditionError(
          absl::StrCat("the undisturbed run did not finish, see ", folder_.at("run.log")));
    ASSIGN_OR_RETURN(const Yardstick yardstick,
                     yardstick_of(end.summary.at("seconds"), steps, end.metrics));
    return nlohmann::json{{"step_seconds", yardstick.step_seconds},
                          {"beside_seconds", yardstick.beside_seconds},
                          {"digest", end.summary.at("digest")}};
  }

  absl::StatusOr<std::vector<FailureTime>> drawn(const FailureProcess& process,
                                                 uint64_t seed) const {
    const double horizon = kHorizon * static_cast<double>(job_.train.steps);
    const auto nodes = static_cast<int>(job_.run.nodes);
    if (process.are_gone && process.trace.empty())
      return draw_departures(process, seed, nodes, horizon);
    if (process.are_gone) {
      ASSIGN_OR_RETURN(const FailureTrace trace,
                       load_failure_trace(real_files(), process.trace, kTraceNodesMax));
      return trace_departures(process, trace, seed, nodes);
    }
    std::vector<double> gaps;
    if (!process.trace.empty()) {
      ASSIGN_OR_RETURN(gaps, loss_gaps(real_files(), process.trace));
    }
    const int candidates = process.lost_together > 1 ? nodes : topology_.world_size();
    return draw_failures(process, gaps, seed, candidates, horizon);
  }

  absl::StatusOr<JobEnd> run_job(const std::vector<std::string>& settings, bool has_faults) {
    JobRequest request{.config = experiment_.config, .settings = experiment_.settings};
    if (has_faults) request.faults = folder_.at("faults.toml");
    request.settings.insert(request.settings.end(), settings.begin(), settings.end());
    request.settings.push_back("evaluate.every_steps=0");
    return runner_->run(request);
  }

  // Failures came by the seconds of the turn's first yardstick; this run's steps took their own.
  static std::vector<FailureTime> in_steps_of(const nlohmann::json& record,
                                              std::vector<FailureTime> times,
                                              const Yardstick& first) {
    const double ratio = first.step_seconds / record.at("step_seconds").get<double>();
    for (FailureTime& time : times) time.steps *= ratio;
    return times;
  }

  // The very failures of the run: what is off is the model's error, not luck.
  static absl::Status predict(const RuntimeProfile& profile, const JobConfig& job, LostKind lost,
                              const std::vector<FailureTime>& times, nlohmann::json& record) {
    std::vector<PlayedLoss> losses;
    for (const FailureTime& time : times) losses.push_back({time.steps, time.victims});
    ASSIGN_OR_RETURN(const PredictedRun predicted, predict_run(profile, job, lost, losses));
    add_prediction(predicted, record);
    return absl::OkStatus();
  }

  void show(const nlohmann::json& run, int number) const {
    std::cerr << absl::StrFormat("run %d of %d: %s, seed %d, %s: %s, ETTR %s, predicted %s\n",
                                 number, total_, run["failure_process"].get<std::string>(),
                                 run["seed"].get<int64_t>(), run["system"].get<std::string>(),
                                 run["status"].get<std::string>(), ettr_text(run["ettr"]),
                                 ettr_text(run["predicted_ettr"]));
  }

  const ExperimentOptions& options_;
  const Experiment experiment_;
  const JobConfig job_;
  const std::vector<JobConfig> jobs_;  // of the systems
  const Topology topology_;
  ExperimentFolder folder_;
  std::unique_ptr<JobRunner> runner_;
  std::optional<Yardstick> newest_;  // of this process
  int total_ = 0;
};

absl::Status check_failures(const std::vector<FailureProcess>& failures, const JobConfig& job) {
  for (const FailureProcess& process : failures) {
    if (process.lost_together > 1 && process.lost_together > job.run.nodes)
      return InvalidInput(absl::StrCat("failures.lost_together: found ", process.lost_together,
                                       " with run.nodes = ", job.run.nodes,
                                       ", allowed: at most run.nodes (a setting of [model])"));
    if (process.are_gone && process.lost_together >= job.run.nodes)
      return InvalidInput(
          absl::StrCat("failures.lost: found \"node\" with run.nodes = ", job.run.nodes,
                       ", allowed: with more nodes than are lost "
                       "together (run.nodes is a setting of [model])"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ExperimentOutcome> run_experiment(const ExperimentOptions& options) {
  const absl::StatusOr<std::string> text =
      read_file(real_files(), options.file, kExperimentBytesMax);
  if (!text.ok()) return InvalidInput(std::string(text.status().message()));
  ASSIGN_OR_RETURN(Experiment experiment, parse_experiment(*text, options.file));
  ASSIGN_OR_RETURN(JobConfig job, load_config(experiment.config, experiment.settings));
  RETURN_IF_ERROR(check_failures(experiment.failures, job));
  ASSIGN_OR_RETURN(std::vector<JobConfig> jobs, jobs_of(experiment, job));
  return ExperimentRunner(options, std::move(experiment), std::move(job), std::move(jobs))
      .run(*text);
}

}  // namespace evermoe
