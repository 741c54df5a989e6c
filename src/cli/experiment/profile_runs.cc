#include "cli/experiment/profile_runs.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/build_fingerprint.h"
#include "base/error.h"
#include "cli/experiment/profile_measurements.h"
#include "config/job_topology.h"
#include "env/files.h"
#include "faults/fault_script.h"
#include "parallel/job_layout.h"

namespace evermoe {
namespace {

constexpr absl::Duration kLookEvery = absl::Milliseconds(20);
// Until windows have the length that measurements give them, and durable saves their pace.
constexpr int64_t kFirstKill = 20;
// From one kill to the next: so that they meet windows and saves at different moments.
constexpr int64_t kKillGap = 13;
constexpr int64_t kTail = 8;
// A run is short: saves that are rarer would not be seen.
constexpr int64_t kSaveEvery = 8;

class ProfileRunner {
 public:
  ProfileRunner(const ProfileRunOptions& options, const JobConfig& job, const std::string& folder,
                JobRunner& runner)
      : options_(options),
        job_(job),
        topology_(topology_of(job)),
        folder_(folder),
        runner_(runner),
        strategies_(options.strategies) {
    if (std::ranges::count(strategies_, StrategyKind::kNone) == 0)
      strategies_.push_back(StrategyKind::kNone);
  }

  absl::StatusOr<ProfileOutcome> run() {
    ProfileOutcome outcome;
    const int turns = static_cast<int>(strategies_.size()) + 1;
    for (int round = 0; round < options_.rounds; ++round) {
      for (int turn = 0; turn < turns; ++turn) {
        const int which = (turn + round) % turns;
        RETURN_IF_ERROR(which == 0
                            ? measure_bare(outcome.signal)
                            : measure(strategies_[static_cast<size_t>(which) - 1], outcome.signal));
        if (outcome.signal != 0) return outcome;
      }
    }
    outcome.profile = profile();
    return outcome;
  }

 private:
  std::string faults_file() const { return join_path(folder_, "profile-faults.toml"); }
  int64_t steps() const { return kFirstKill + options_.kills * kKillGap + kTail; }
  bool has_nodes() const { return job_.run.nodes > 1 && topology_.world_size() > 1; }
  int64_t runs() const {
    return options_.rounds * (1 + std::ssize(strategies_) * (has_nodes() ? 2 : 1));
  }

  // All ranks but the first in turn, from the last: what it writes of steps would be torn.
  FaultScript kills() const {
    FaultScript script;
    const int ranks = topology_.world_size();
    for (int i = 0; i < options_.kills; ++i) {
      const Role role = topology_.role_of(Rank(ranks == 1 ? 0 : ranks - 1 - i % (ranks - 1)));
      Fault fault{.index = i, .kind = FaultKind::kKillWorker, .role = {role.stage, role.lane}};
      fault.moment = FaultMoment{.point = "step/forward", .step = Step(kFirstKill + i * kKillGap)};
      script.faults.push_back(fault);
    }
    return script;
  }

  // One: what it played goes to other nodes, and a second loss would meet another layout.
  FaultScript node_kill() const {
    const int ranks = topology_.world_size();
    Fault fault{.kind = FaultKind::kKillNode};
    fault.node = first_node_of(ranks - 1, ranks, static_cast<int>(job_.run.nodes));
    fault.moment = FaultMoment{.point = "step/forward", .step = Step(kFirstKill)};
    return {.faults = {fault}};
  }

  absl::StatusOr<MeasuredRun> measured(const std::string& name,
                                       const std::vector<std::string>& settings,
                                       std::optional<LostKind> lost, int& signal) {
    std::cerr << absl::StrFormat("profile, run %d of %d: %s ... ", ++count_, runs(), name);
    JobRequest request{
        .config = options_.config, .settings = options_.settings, .look_every = kLookEvery};
    request.settings.insert(request.settings.end(), settings.begin(), settings.end());
    request.settings.insert(
        request.settings.end(),
        {absl::StrCat("train.steps=", steps()), "evaluate.every_steps=0", "run.restarts_max=1000"});
    if (lost) {
      const FaultScript script = *lost == LostKind::kNode ? node_kill() : kills();
      RETURN_IF_ERROR(replace_file(real_files(), faults_file(), to_toml(script)));
      request.faults = faults_file();
    }
    ASSIGN_OR_RETURN(const JobEnd end, runner_.run(request));
    signal = end.signal;
    if (signal != 0) {
      std::cerr << "interrupted\n";
      return MeasuredRun();
    }
    const absl::StatusOr<MeasuredRun> run = measured_run(end, lost.value_or(LostKind::kWorker));
    if (!run.ok())
      return absl::FailedPreconditionError(absl::StrCat(name, ": ", run.status().message(),
                                                        ", see ", join_path(folder_, "run.log")));
    std::cerr << absl::StrFormat("%.1f s, steps of %.3f s, %d recoveries\n",
                                 end.summary.at("seconds").get<double>(), run->step_seconds,
                                 std::ssize(run->failures));
    return run;
  }

  absl::Status measure_bare(int& signal) {
    ASSIGN_OR_RETURN(
        const MeasuredRun run,
        measured("undisturbed", {"protection.strategy=none", "checkpoint.every_steps=0"},
                 std::nullopt, signal));
    if (signal == 0) bare_.push_back(run);
    return absl::OkStatus();
  }

  absl::Status measure(StrategyKind kind, int& signal) {
    RETURN_IF_ERROR(measure(kind, LostKind::kWorker, signal));
    return has_nodes() && signal == 0 ? measure(kind, LostKind::kNode, signal) : absl::OkStatus();
  }

  absl::Status measure(StrategyKind kind, LostKind lost, int& signal) {
    const std::string strategy(to_string(kind));
    const std::string name =
        lost == LostKind::kNode ? absl::StrCat(strategy, ", a node lost") : strategy;
    const int64_t every = job_.checkpoint.every_steps == 0
                              ? kSaveEvery
                              : std::min(job_.checkpoint.every_steps, kSaveEvery);
    ASSIGN_OR_RETURN(const MeasuredRun run,
                     measured(name,
                              {"protection.strategy=" + strategy,
                               absl::StrCat("checkpoint.every_steps=", every)},
                              lost, signal));
    if (signal == 0) runs_[kind].push_back(run);
    return absl::OkStatus();
  }

  // Between its saves a strategy that captures nothing does what the undisturbed job does: their
  // steps are one kind, and what differs is the machine.
  static bool steps_are_bare(StrategyKind kind) { return !strategy_of(kind).keeps_copies(); }

  double bare_step_seconds() const {
    std::vector<MeasuredRun> runs = bare_;
    for (const auto& [kind, measured] : runs_) {
      if (steps_are_bare(kind)) runs.insert(runs.end(), measured.begin(), measured.end());
    }
    return strategy_profile(StrategyKind::kNone, runs).step_seconds;
  }

  RuntimeProfile profile() const {
    const StrategyProfile bare = strategy_profile(StrategyKind::kNone, bare_);
    RuntimeProfile profile{.fingerprint = job_fingerprint(job_),
                           .build = build_fingerprint(),
                           .stages = topology_.stages(),
                           .ranks = topology_.world_size(),
                           .nodes = job_.run.nodes,
                           .step_seconds = bare_step_seconds(),
                           .begin_seconds = bare.begin_seconds,
                           .end_seconds = bare.end_seconds};
    for (const StrategyKind kind : strategies_) {
      profile.strategies.push_back(strategy_profile(kind, runs_.at(kind)));
      if (steps_are_bare(kind)) profile.strategies.back().step_seconds = profile.step_seconds;
    }
    return profile;
  }

  const ProfileRunOptions& options_;
  const JobConfig& job_;
  const Topology topology_;
  const std::string folder_;
  JobRunner& runner_;
  std::vector<StrategyKind> strategies_;
  std::vector<MeasuredRun> bare_;
  std::map<StrategyKind, std::vector<MeasuredRun>> runs_;
  int count_ = 0;
};

}  // namespace

absl::StatusOr<ProfileOutcome> measure_profile(const ProfileRunOptions& options,
                                               const JobConfig& job, const std::string& folder,
                                               JobRunner& runner) {
  return ProfileRunner(options, job, folder, runner).run();
}

}  // namespace evermoe
