#include "control/controller/control_options.h"

#include <algorithm>

#include "base/error.h"
#include "config/copy_level.h"
#include "config/elastic/elastic_keys.h"
#include "config/job_strategy.h"
#include "config/job_topology.h"
#include "env/files.h"

namespace evermoe {
namespace {

constexpr double kWorkerBeats = 6;
constexpr double kControlBeats = 20;
constexpr double kStandstillBeats = 4;
constexpr absl::Duration kSilenceMin = absl::Seconds(1);
constexpr absl::Duration kStandstillMin = absl::Seconds(2);
// What is not a step (a start, an evaluation, a checkpoint, the end) may take so many step
// deadlines.
constexpr int kPatience = 10;
// For the machines that a job needs: launchers start them one after the other.
constexpr absl::Duration kBeginMax = absl::Minutes(5);
constexpr absl::Duration kSparesWait = absl::Seconds(30);
// Of most nodes at once, before a controller takes them for lost instead of itself.
constexpr double kCutOffSilences = 6;
// For an order to reach all roles of a move, on machines that are busy.
constexpr absl::Duration kLeaveAhead = absl::Milliseconds(250);
// How long members have to move in a view that was opened to see who stands still.
constexpr absl::Duration kProbe = absl::Seconds(5);

// For a round of questions between machines (relay/network_rounds.h).
constexpr absl::Duration kNetworkMax = absl::Seconds(5);

ElasticOptions elastic_options(const JobConfig& config) {
  ElasticOptions elastic;
  elastic.is_enabled = config.elastic.enabled;
  elastic.nodes_min = static_cast<int>(config.elastic.min_nodes);
  elastic.grow_wait = absl::Seconds(config.elastic.grow_wait_seconds);
  elastic.widths = elastic_widths(config);
  const Topology roles = topology_of(config);
  for (const LaneHistoryEntry& entry : lane_history_of(config))
    elastic.script.push_back({.step = Step(entry.step),
                              .resting = last_lanes_resting(roles, entry.lanes),
                              .cause = "elastic.history"});
  return elastic;
}

}  // namespace

SignsOfLife signs_of_life(const ProtectionConfig& protection) {
  const absl::Duration beat = absl::Seconds(protection.heartbeat_seconds);
  const absl::Duration control = std::max(kSilenceMin, kControlBeats * beat);
  return {.beat = beat,
          .worker_max = std::max(kSilenceMin, kWorkerBeats * beat),
          .node_max = control,
          .controller_max = control,
          .standstill = std::max(kStandstillMin, kStandstillBeats * beat)};
}

ControllerServerOptions controller_options(const JobConfig& config) {
  const SignsOfLife signs = signs_of_life(config.protection);
  ControllerServerOptions options;
  options.lanes.assign(config.parallel.lanes.begin(), config.parallel.lanes.end());
  ControllerOptions& core = options.core;
  core.nodes = static_cast<int>(config.run.nodes);
  core.spares = static_cast<int>(config.run.spares);
  core.standbys = static_cast<int>(config.run.standbys);
  core.leave_ahead = kLeaveAhead;
  core.racks = static_cast<int>(config.run.racks);
  core.copies = static_cast<int>(config.protection.copies);
  core.copy_level = copy_level_of(config.protection);
  core.strategy = strategy_of(config);
  core.elastic = elastic_options(config);
  core.stragglers = {.slower_than = config.stragglers.slower_than,
                     .for_steps = static_cast<int>(config.stragglers.for_steps),
                     .link_slower_than = config.stragglers.link_slower_than,
                     .moves = config.stragglers.action == StragglerAction::kMove,
                     .look = signs.beat};
  core.restarts_max = static_cast<int>(config.run.restarts_max);
  core.backoff = absl::Seconds(config.run.backoff_seconds);
  core.steps = Step(config.train.steps);
  core.evaluate_every_steps = config.evaluate.every_steps;
  core.checkpoint_every_steps = config.checkpoint.every_steps;
  core.patience = kPatience;
  core.begin_max = kBeginMax;
  core.spares_wait = kSparesWait;
  core.silence_max = signs.worker_max;
  core.goes_on_max = signs.node_max;
  core.step_max = absl::Seconds(config.run.deadline_seconds);
  core.medians_max = config.protection.step_deadline_medians;
  // A worker says that it has entered the view of a probe with its next sign of life, and its agent
  // with the one after that.
  core.probe_min = std::max(std::min(kProbe, core.step_max / 2), 4 * signs.beat);
  core.load_max = absl::Seconds(config.protection.recovery_deadline_seconds);
  core.start_max = std::min(core.start_max, core.load_max);
  core.network_max = kNetworkMax;
  options.relay.beat = signs.beat;
  options.relay.silence_max = signs.node_max;
  options.relay.cut_off_max = kCutOffSilences * signs.node_max;
  options.relay.own_standstill = core.own_standstill = signs.standstill;
  return options;
}

AgentCoreOptions agent_options(const JobConfig& config) {
  const SignsOfLife signs = signs_of_life(config.protection);
  AgentCoreOptions options;
  options.beat = signs.beat;
  options.silence_max = signs.controller_max;
  options.own_standstill = signs.standstill;
  return options;
}

absl::StatusOr<JobConfig> load_stored_config(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, read_file(real_files(), path, kConfigBytesMax));
  return parse_config(text, path, parent_directory(path), {});
}

}  // namespace evermoe
