#include "cli/experiment/experiment_runs.h"

#include <algorithm>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
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

namespace evermoe {
namespace {

// Failures are drawn for a job that takes so many times its undisturbed time.
constexpr double kHorizon = 100;

StrategyKind kind_of(const std::string& name) {
  return *std::ranges::find(kStrategyKinds, name, [](StrategyKind k) { return to_string(k); });
}

std::vector<StrategyKind> kinds_of(const std::vector<std::string>& names) {
  std::vector<StrategyKind> kinds;
  for (const std::string& name : names) kinds.push_back(kind_of(name));
  return kinds;
}

std::string ettr_text(const nlohmann::json& value) {
  return value.is_number() ? absl::StrFormat("%.3f", value.get<double>()) : "unknown";
}

class ExperimentRunner {
 public:
  ExperimentRunner(const ExperimentOptions& options, Experiment experiment, JobConfig job)
      : options_(options),
        experiment_(std::move(experiment)),
        job_(std::move(job)),
        topology_(topology_of(job_)) {}

  absl::StatusOr<ExperimentOutcome> run(const std::string& text) {
    ExperimentOutcome outcome;
    if (!options_.profile.empty()) {
      ASSIGN_OR_RETURN(outcome.profile, given_profile(options_.profile));
    }
    RETURN_IF_ERROR(claim_folder(text));
    ASSIGN_OR_RETURN(runner_, JobRunner::open(options_.out, options_.run_seconds_max));
    RETURN_IF_ERROR(find_profile(outcome));
    if (outcome.signal != 0) return outcome;
    total_ = static_cast<int>(experiment_.failures.size() * experiment_.seeds.size() *
                              experiment_.strategies.size());
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
    const nlohmann::json identity = {{"version", 2}, {"file", text}, {"config", config}};
    const absl::StatusOr<std::string> found =
        read_file(files, at("experiment.json"), kJobResultBytesMax);
    if (!found.ok()) return replace_file(files, at("experiment.json"), identity.dump());
    if (nlohmann::json::parse(*found, nullptr, false) == identity) return absl::OkStatus();
    return InvalidInput(absl::StrCat("--out: found ", options_.out,
                                     " of another experiment, or version of it, allowed: its own "
                                     "or a new folder"));
  }

  // ---- The profile

  absl::StatusOr<RuntimeProfile> given_profile(const std::string& path) const {
    ASSIGN_OR_RETURN(RuntimeProfile profile, load_runtime_profile(real_files(), path));
    for (const std::string& strategy : experiment_.strategies)
      RETURN_IF_ERROR(annotate(predict_run(profile, job_with(strategy), {}).status(), path));
    return profile;
  }

  absl::Status find_profile(ExperimentOutcome& outcome) {
    if (!outcome.profile && read_file(real_files(), at("profile.toml"), kJobResultBytesMax).ok()) {
      ASSIGN_OR_RETURN(outcome.profile, given_profile(at("profile.toml")));
    } else if (!outcome.profile && options_.profile_rounds > 0) {
      const ProfileRunOptions how{.config = experiment_.config,
                                  .settings = experiment_.settings,
                                  .strategies = kinds_of(experiment_.strategies),
                                  .rounds = options_.profile_rounds};
      ASSIGN_OR_RETURN(ProfileOutcome measured, measure_profile(how, job_, options_.out, *runner_));
      outcome.signal = measured.signal;
      if (outcome.signal != 0) return absl::OkStatus();
      outcome.profile = std::move(measured.profile);
    }
    if (!outcome.profile) return absl::OkStatus();
    return replace_file(real_files(), at("profile.toml"), to_toml(*outcome.profile));
  }

  // ---- The runs

  // A result that was written before, or null.
  nlohmann::json stored(const std::string& name) const {
    const absl::StatusOr<std::string> text =
        read_file(real_files(), at("results/" + name), kJobResultBytesMax);
    if (!text.ok()) return nullptr;
    const nlohmann::json value = nlohmann::json::parse(*text, nullptr, false);
    return value.is_discarded() ? nlohmann::json(nullptr) : value;
  }

  absl::Status store(const std::string& name, const nlohmann::json& value) const {
    return replace_file(real_files(), at("results/" + name), value.dump());
  }

  JobConfig job_with(const std::string& strategy) const {
    JobConfig job = job_;
    job.protection.strategy = kind_of(strategy);
    return job;
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
    ASSIGN_OR_RETURN(const std::vector<FailureTime> times, drawn(failures, seed));
    RETURN_IF_ERROR(replace_file(
        real_files(), at("faults.toml"),
        to_toml(faults_of(times, topology_, yardstick.step_seconds, yardstick.beside_seconds))));
    for (const std::string& strategy : experiment_.strategies) {
      const std::string name = absl::StrCat(turn, strategy, ".json");
      nlohmann::json record = stored(name);
      if (record.is_null()) {
        ASSIGN_OR_RETURN(const JobEnd end, run_job({"protection.strategy=" + strategy}, true));
        outcome.signal = end.signal;
        if (end.signal != 0) return absl::OkStatus();
        record = run_record(end, job_with(strategy), failures.name, seed, yardstick);
        RETURN_IF_ERROR(store(name, record));
      }
      RETURN_IF_ERROR(predict(outcome.profile, job_with(strategy), times, record));
      outcome.runs.push_back(record);
      show(record, static_cast<int>(outcome.runs.size()));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<nlohmann::json> measure_yardstick(int& signal) {
    ASSIGN_OR_RETURN(const JobEnd end,
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

  absl::StatusOr<std::vector<FailureTime>> drawn(const FailureProcess& process,
                                                 uint64_t seed) const {
    std::vector<double> gaps;
    if (!process.trace.empty()) {
      ASSIGN_OR_RETURN(gaps, loss_gaps(real_files(), process.trace));
    }
    const int candidates =
        process.lost_together > 1 ? static_cast<int>(job_.run.nodes) : topology_.world_size();
    return draw_failures(process, gaps, seed, candidates,
                         kHorizon * static_cast<double>(job_.train.steps));
  }

  absl::StatusOr<JobEnd> run_job(const std::vector<std::string>& settings, bool has_faults) {
    JobRequest request{.config = experiment_.config, .settings = experiment_.settings};
    if (has_faults) request.faults = at("faults.toml");
    request.settings.insert(request.settings.end(), settings.begin(), settings.end());
    request.settings.push_back("evaluate.every_steps=0");
    return runner_->run(request);
  }

  // The very failures of the run: what is off is the model's error, not luck.
  static absl::Status predict(const std::optional<RuntimeProfile>& profile, const JobConfig& job,
                              const std::vector<FailureTime>& times, nlohmann::json& record) {
    add_no_prediction(record);
    if (!profile) return absl::OkStatus();
    std::vector<PlayedLoss> losses;
    for (const FailureTime& time : times) {
      PlayedLoss loss{.steps = time.steps, .places = time.victims};
      if (time.victims.size() == 1) loss.places = {place_of_rank(job, time.victims.front())};
      losses.push_back(std::move(loss));
    }
    ASSIGN_OR_RETURN(const PredictedRun predicted, predict_run(*profile, job, losses));
    add_prediction(predicted, record);
    return absl::OkStatus();
  }

  void show(const nlohmann::json& run, int number) const {
    std::cerr << absl::StrFormat("run %d of %d: %s, seed %d, %s: %s, ETTR %s, predicted %s\n",
                                 number, total_, run["failure_process"].get<std::string>(),
                                 run["seed"].get<int64_t>(), run["strategy"].get<std::string>(),
                                 run["status"].get<std::string>(), ettr_text(run["ettr"]),
                                 ettr_text(run["predicted_ettr"]));
  }

  const ExperimentOptions& options_;
  const Experiment experiment_;
  const JobConfig job_;
  const Topology topology_;
  std::unique_ptr<JobRunner> runner_;
  int total_ = 0;
};

absl::Status check_failures(const std::vector<FailureProcess>& failures, const JobConfig& job) {
  for (const FailureProcess& process : failures) {
    if (!process.trace.empty()) RETURN_IF_ERROR(loss_gaps(real_files(), process.trace).status());
    if (process.lost_together > 1 && process.lost_together > job.run.nodes)
      return InvalidInput(absl::StrCat("failures.lost_together: found ", process.lost_together,
                                       " with run.nodes = ", job.run.nodes,
                                       ", allowed: at most run.nodes (a setting of [model])"));
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
  return ExperimentRunner(options, std::move(experiment), std::move(job)).run(*text);
}

}  // namespace evermoe
