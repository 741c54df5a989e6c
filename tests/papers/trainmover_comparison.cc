#include "papers/trainmover_comparison.h"

#include "planner/failures/failure_trace.h"
#include "planner/simulate/estimate.h"

namespace evermoe {
namespace {

constexpr int kPlaces = 16;  // of the played job: only its failures per hour count
constexpr double kWeek = 7 * 86400;

// Nothing but the step under way is run again, and steps are short: replicas of all state live on.
double wasted(RunStrategy strategy, double mtbf_seconds, int spares, int runs) {
  const TrainedJob job{.step_seconds = 0.001, .nodes = kPlaces};
  strategy.protection = StateProtection::kReplicas;
  strategy.copies = kPlaces - 1;
  const auto source = [&](uint64_t seed) {
    return draw_availability({.node_mtbf_seconds = mtbf_seconds * kPlaces}, kPlaces + spares, 0,
                             seed);
  };
  return 1 - estimate_runs(job, strategy, {.wall_seconds = kWeek}, source, runs, 1).ettr.mean;
}

}  // namespace

std::vector<WasteComparison> compare_waste(int runs) {
  std::vector<WasteComparison> rows;
  for (const WasteScale& scale : kWasteScales) {
    RunStrategy standby{.replacement = NodeReplacement::kStandby}, cold, parcae;
    standby.recovery.standby = kStandbySeconds;
    cold.recovery.restart = kNoStandbySeconds;
    parcae.recovery.restart = kParcaeSeconds;
    rows.push_back({scale.gpus, scale.mtbf_seconds,
                    wasted(standby, scale.mtbf_seconds, 1, runs) + 8.0 / scale.gpus,
                    wasted(cold, scale.mtbf_seconds, 0, runs),
                    wasted(parcae, scale.mtbf_seconds, 0, runs)});
  }
  return rows;
}

double restarts_share(double seconds, double mtbf_seconds, int runs) {
  RunStrategy cold;
  cold.recovery.restart = seconds;
  return wasted(cold, mtbf_seconds, 0, runs);
}

double rebalanced_ettr(double seconds, bool migrates) {
  constexpr double kEvery = 600, kRun = 6 * 3600;
  FailureTrace trace;
  trace.nodes.assign(2, "node");
  trace.up_at_start.assign(2, true);
  int playing = 0;
  for (double at = kEvery; at <= kRun; at += kEvery, playing = 1 - playing) {
    trace.events.push_back({at, AvailabilityEvent::Kind::kAnnounced, {playing}});
    trace.events.push_back({at + kEvery / 2, AvailabilityEvent::Kind::kUp, {playing}});
  }
  RunStrategy strategy{.protection = StateProtection::kReplicas, .migrates = migrates};
  strategy.recovery = {.restart = seconds, .migrate = seconds};
  const TrainedJob job{.step_seconds = 1};
  return simulate_run(job, strategy, *play_availability(trace), {.wall_seconds = kRun}).ettr();
}

}  // namespace evermoe
