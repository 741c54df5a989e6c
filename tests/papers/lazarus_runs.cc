#include <algorithm>
#include <cmath>
#include <set>

#include "base/check.h"
#include "papers/lazarus_comparison.h"
#include "planner/simulate/estimate.h"
#include "protection/interval/interval.h"

namespace evermoe {
namespace {

constexpr int kSamplesOfNode = 4;         // of a step
constexpr double kStorageBytes = 1.25e9;  // NFS behind 10 Gbit/s
constexpr double kReconfigure = 30;       // the paper: 20 to 40 s
// Chosen so that Fig. 6 comes out; the paper does not give it.
constexpr double kColdRestart = 120;
// DeepSpeed's steps are so much longer with all nodes: 45 against 34 samples per second (GPT-M).
constexpr double kUnequalLoads = 45.0 / 34;

bool is_deep_speed(LazarusSystem system) { return system != LazarusSystem::kLazarus; }

TrainedJob lazarus_job(const LazarusRun& run) {
  const int unit = is_deep_speed(run.system) ? run.model.group_nodes : 1;
  const double slower = is_deep_speed(run.system) ? kUnequalLoads : 1;
  return {.step_seconds = run.model.step_seconds * slower,
          .nodes = kLazarusNodes / unit * unit,
          .nodes_least = unit,
          .elastic_unit = unit};
}

RunStrategy lazarus_strategy(const LazarusRun& run) {
  const double bytes = kLazarusStateBytes * run.model.parameters;
  const int groups = kLazarusNodes / run.model.group_nodes;
  RunStrategy strategy{.replacement = NodeReplacement::kElastic};
  const PeriodicSave save{.every_steps = run.save_every, .stall_seconds = bytes / kStorageBytes};
  RecoverySeconds& times = strategy.recovery;
  const double restart = kColdRestart + groups * bytes / kStorageBytes;  // every group reads it all
  times.grow_wait = 120;
  if (run.system == LazarusSystem::kDeepSpeed) {
    strategy.save = save;
    times.reconfigure = times.grow = kColdRestart;
    times.load_durable = restart - kColdRestart;
    return strategy;
  }
  strategy.protection = StateProtection::kReplicas;
  // Lazarus: up to three lost nodes were always survived on the spot trace.
  strategy.copies = run.system == LazarusSystem::kLazarus ? 3 : groups - 1;
  strategy.fallback = save;
  times.reconfigure = times.grow = kReconfigure;
  times.load_durable = restart - kReconfigure;
  return strategy;
}

// One estimate of Fig. 13's job, whose step, storage and restarts are chosen here.
double completion(const RunStrategy& strategy, int nodes, int unit, double lost_per_hour,
                  int runs) {
  const TrainedJob job{
      .step_seconds = 20, .nodes = nodes, .nodes_least = unit, .elastic_unit = unit};
  const auto source = [&](uint64_t seed) {
    return draw_availability({.node_mtbf_seconds = 3600 / lost_per_hour,
                              .repair_seconds = 3600,
                              .exponential_repair = true},
                             nodes, 0, seed);
  };
  const double ettr =
      estimate_runs(job, strategy, {.wall_seconds = 7 * 86400}, source, runs, 1).ettr.mean;
  return 1 / ettr;
}

}  // namespace

LazarusRunEnd play_lazarus(const LazarusRun& run, const FailureTrace& failures) {
  const TrainedJob job = lazarus_job(run);
  LazarusRunEnd end;
  end.run = simulate_run(job, lazarus_strategy(run), *play_availability(failures),
                         {.wall_seconds = run.wall_seconds});
  end.samples = end.run.useful_seconds / job.step_seconds * job.nodes * kSamplesOfNode;
  return end;
}

FailureTrace one_by_one(double seconds) {
  FailureTrace trace;
  trace.nodes.assign(kLazarusNodes, "node");
  trace.up_at_start.assign(kLazarusNodes, true);
  for (int i = 1; i <= kLazarusNodes / 2; ++i)
    trace.events.push_back({i * seconds, AvailabilityEvent::Kind::kDown, {i - 1}});
  return trace;
}

FailureTrace ten_spot_nodes(const FailureTrace& trace) {
  constexpr double kMinute34 = 34 * 60;
  std::set<int> members;
  for (const FailureTrace::Event& event : trace.events) {
    if (event.kind == AvailabilityEvent::Kind::kDown && event.seconds == kMinute34)
      members.insert(event.nodes.begin(), event.nodes.end());
  }
  for (int node = 0; members.size() < kLazarusNodes; ++node) members.insert(node);
  FailureTrace ten;
  ten.nodes = trace.nodes;
  ten.up_at_start.assign(trace.nodes.size(), false);
  std::set<int> up = members, waiting;
  for (const int node : members) ten.up_at_start[static_cast<size_t>(node)] = true;
  for (const FailureTrace::Event& event : trace.events) {
    std::vector<int> nodes;
    for (const int node : event.nodes) {
      const bool comes = event.kind == AvailabilityEvent::Kind::kUp;
      if (comes ? !members.contains(node) && up.size() < kLazarusNodes : up.contains(node)) {
        comes ? void(up.insert(node)) : void(up.erase(node));
        nodes.push_back(node);
      }
    }
    if (!nodes.empty()) ten.events.push_back({event.seconds, event.kind, std::move(nodes)});
  }
  return ten;
}

CompletionRatios completion_ratios(int nodes, double lost_per_hour, int runs) {
  constexpr double kStall = 30, kGroupNodes = 8;
  const double mtbf = 3600 / lost_per_hour / nodes;
  RunStrategy replicas{.protection = StateProtection::kReplicas,
                       .replacement = NodeReplacement::kElastic,
                       .copies = 3};
  replicas.recovery = {.reconfigure = kReconfigure, .grow = kReconfigure, .grow_wait = 120};
  replicas.recovery.load_durable = 400;
  const double work = best_interval_seconds({.save_seconds = kStall, .mtbf_seconds = mtbf});
  replicas.fallback = {.every_steps = 180, .stall_seconds = kStall};
  RunStrategy saves{.replacement = NodeReplacement::kElastic};
  saves.save = {.every_steps = std::max<int64_t>(1, std::llround(work / 20)),
                .stall_seconds = kStall};
  saves.recovery = {.reconfigure = 300, .grow = 300, .grow_wait = 120, .load_durable = 100};
  const double lazarus = completion(replicas, nodes, 1, lost_per_hour, runs);
  return {completion(replicas, nodes, kGroupNodes, lost_per_hour, runs) / lazarus,
          completion(saves, nodes, kGroupNodes, lost_per_hour, runs) / lazarus};
}

}  // namespace evermoe
