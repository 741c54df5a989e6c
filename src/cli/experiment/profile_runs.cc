#include "cli/experiment/profile_runs.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/build_fingerprint.h"
#include "base/error.h"
#include "cli/experiment/profile_measurements.h"
#include "config/job_topology.h"
#include "env/files.h"
#include "faults/fault_script.h"
#include "parallel/job_layout.h"
#include "planner/measured/measured_recovery.h"

namespace evermoe {
namespace {

constexpr absl::Duration kLookEvery = absl::Milliseconds(20);
// Until windows have the length that measurements give them, and durable saves their pace.
constexpr int64_t kFirstKill = 20;
// From one kill to the next: so that they meet windows and saves at different moments.
constexpr int64_t kKillGap = 13;
constexpr int64_t kTail = 8;
// Longer than any run.
constexpr double kNoticeSeconds = 1e6;
// A run is short: saves that are rarer would not be seen.
constexpr int64_t kSaveEvery = 8;

// What happens in a run.
enum class Event : uint8_t { kNothing, kWorkersLost, kNodeLost, kWorkersLostWarm, kNodeAnnounced };

const char* in_words(Event event) {
  switch (event) {
    case Event::kNothing:
    case Event::kWorkersLost: break;
    case Event::kNodeLost: return ", a node lost";
    case Event::kWorkersLostWarm: return ", with a standby";
    case Event::kNodeAnnounced: return ", a node announced to go";
  }
  return "";
}

LostKind lost_of(Event event) {
  if (event == Event::kNodeLost) return LostKind::kNode;
  return event == Event::kWorkersLostWarm ? LostKind::kStandby : LostKind::kWorker;
}

bool is_prepared(Event event) {
  return event == Event::kWorkersLostWarm || event == Event::kNodeAnnounced;
}

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
  int64_t steps(Event event) const {
    // A process has to warm up for a move, also on a busy machine.
    const int64_t gaps = event == Event::kNodeAnnounced ? 5 : options_.kills;
    return kFirstKill + gaps * kKillGap + kTail;
  }
  bool has_nodes() const { return job_.run.nodes > 1 && topology_.world_size() > 1; }
  int64_t runs() const {
    size_t runs = 1;
    for (const StrategyKind kind : strategies_) runs += events(kind).size();
    return options_.rounds * static_cast<int64_t>(runs);
  }

  std::vector<Event> events(StrategyKind kind) const {
    std::vector<Event> events{Event::kWorkersLost};
    if (has_nodes()) events.push_back(Event::kNodeLost);
    if (!options_.prepared || !strategy_of(kind).keeps_copies()) return events;
    events.push_back(Event::kWorkersLostWarm);
    if (has_nodes()) events.push_back(Event::kNodeAnnounced);
    return events;
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

  int last_node() const {
    const int ranks = topology_.world_size();
    return first_node_of(ranks - 1, ranks, static_cast<int>(job_.run.nodes));
  }

  // One: what it played goes to other nodes, and a second loss would meet another layout.
  FaultScript node_kill() const {
    Fault fault{.kind = FaultKind::kKillNode, .node = last_node()};
    fault.moment = FaultMoment{.point = "step/forward", .step = Step(kFirstKill)};
    return {.faults = {fault}};
  }

  // The run ends before the node goes.
  FaultScript node_notice() const {
    return {.faults = {{.kind = FaultKind::kNoticeNode,
                        .node = last_node(),
                        .seconds = kNoticeSeconds,
                        .after_step = Step(kFirstKill)}}};
  }

  FaultScript faults(Event event) const {
    if (event == Event::kNodeLost) return node_kill();
    return event == Event::kNodeAnnounced ? node_notice() : kills();
  }

  // Roles go to a spare node, where the standby is, too.
  void prepare(Event event, std::vector<std::string>& settings) const {
    if (is_prepared(event) && job_.run.spares == 0) settings.emplace_back("run.spares=1");
    if (event == Event::kWorkersLostWarm && job_.run.standbys == 0)
      settings.emplace_back("run.standbys=1");
  }

  absl::StatusOr<MeasuredRun> measured(const std::string& name,
                                       const std::vector<std::string>& settings, Event event,
                                       int& signal) {
    std::cerr << absl::StrFormat("profile, run %d of %d: %s ... ", ++count_, runs(), name);
    JobRequest request{
        .config = options_.config, .settings = options_.settings, .look_every = kLookEvery};
    request.settings.insert(request.settings.end(), settings.begin(), settings.end());
    request.settings.insert(request.settings.end(),
                            {absl::StrCat("train.steps=", steps(event)), "evaluate.every_steps=0",
                             "run.restarts_max=1000"});
    prepare(event, request.settings);
    if (event != Event::kNothing) {
      RETURN_IF_ERROR(replace_file(real_files(), faults_file(), to_toml(faults(event))));
      request.faults = faults_file();
    }
    ASSIGN_OR_RETURN(const JobEnd end, runner_.run(request));
    signal = end.signal;
    if (signal != 0) {
      std::cerr << "interrupted\n";
      return MeasuredRun();
    }
    const absl::StatusOr<MeasuredRun> run = measured_run(end, lost_of(event));
    if (!run.ok())
      return absl::FailedPreconditionError(absl::StrCat(name, ": ", run.status().message(),
                                                        ", see ", join_path(folder_, "run.log")));
    std::cerr << absl::StrFormat(
        "%.1f s, steps of %.3f s, %d %s\n", end.summary.at("seconds").get<double>(),
        run->step_seconds,
        event == Event::kNodeAnnounced ? std::ssize(run->moves) : std::ssize(run->failures),
        event == Event::kNodeAnnounced ? "moves" : "recoveries");
    return run;
  }

  absl::Status measure_bare(int& signal) {
    ASSIGN_OR_RETURN(
        const MeasuredRun run,
        measured("undisturbed", {"protection.strategy=none", "checkpoint.every_steps=0"},
                 Event::kNothing, signal));
    if (signal == 0) bare_.push_back(run);
    return absl::OkStatus();
  }

  absl::Status measure(StrategyKind kind, int& signal) {
    for (const Event event : events(kind)) {
      if (signal == 0) RETURN_IF_ERROR(measure(kind, event, signal));
    }
    return absl::OkStatus();
  }

  absl::Status measure(StrategyKind kind, Event event, int& signal) {
    const std::string strategy(to_string(kind));
    const std::string name = absl::StrCat(strategy, in_words(event));
    const int64_t every = job_.checkpoint.every_steps == 0
                              ? kSaveEvery
                              : std::min(job_.checkpoint.every_steps, kSaveEvery);
    ASSIGN_OR_RETURN(const MeasuredRun run,
                     measured(name,
                              {"protection.strategy=" + strategy,
                               absl::StrCat("checkpoint.every_steps=", every)},
                              event, signal));
    if (signal == 0) (is_prepared(event) ? prepared_ : runs_)[kind].push_back(run);
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
      const auto prepared = prepared_.find(kind);
      profile.strategies.push_back(strategy_profile(
          kind, runs_.at(kind),
          prepared == prepared_.end() ? std::span<const MeasuredRun>() : prepared->second));
      if (steps_are_bare(kind)) profile.strategies.back().step_seconds = profile.step_seconds;
    }
    profile.recovery = measured_recovery(profile.strategies);
    return profile;
  }

  const ProfileRunOptions& options_;
  const JobConfig& job_;
  const Topology topology_;
  const std::string folder_;
  JobRunner& runner_;
  std::vector<StrategyKind> strategies_;
  std::vector<MeasuredRun> bare_;
  std::map<StrategyKind, std::vector<MeasuredRun>> runs_, prepared_;
  int count_ = 0;
};

}  // namespace

absl::StatusOr<ProfileOutcome> measure_profile(const ProfileRunOptions& options,
                                               const JobConfig& job, const std::string& folder,
                                               JobRunner& runner) {
  return ProfileRunner(options, job, folder, runner).run();
}

}  // namespace evermoe
