// How long does it take to forecast without running?
//
//   run/S/N      10,000 days of a job on N nodes (16,384 nodes: 131,072 GPUs) whose failures come
//                every 10 minutes, 1.44 million of them, under strategy S: 0 durable, 1 peer
//                memory, 2 partial experts, 3 sparse, 4 live replicas and elastic. Target: seconds.
//                A failure is one or two turns of a heap of lives (0.2 us each), two or three draws
//                (0.05 us) and constant work of the job: about 1 us, so 1.5 s.
//   availability the same failures without a job
//   naive        the same job step by step would be 300 million steps: not run.
//
//   forecast_bench --benchmark_format=json
#include <benchmark/benchmark.h>

#include "planner/simulate/run_simulation.h"

namespace evermoe {
namespace {

constexpr double kDay = 86400, kJobMtbf = 600, kHorizon = 10'000 * kDay;

// On few nodes repairs that take hours would never leave the job alone: there every failure is a
// crash.
FailureLaw law_of(int nodes) {
  return {.node_mtbf_seconds = kJobMtbf * nodes,
          .repair_seconds = nodes > 1000 ? 4 * 3600.0 : 0,
          .crash_share = 0.2};
}

RunStrategy strategy_of(StateProtection protection) {
  RunStrategy strategy{
      .protection = protection, .replacement = NodeReplacement::kStandby, .copies = 2};
  if (protection == StateProtection::kReplicas) strategy.replacement = NodeReplacement::kElastic;
  strategy.save = {.every_steps = 30, .stall_seconds = 5, .durable_after_seconds = 20};
  strategy.fallback = {.every_steps = 1200, .stall_seconds = 5, .durable_after_seconds = 120};
  strategy.sparse = {.window = 6, .lag_steps = 1, .conversion_seconds = 14};
  strategy.lossy = {.experts = 64, .saved = 8};
  strategy.recovery = {.detect = 2,
                       .restart = 200,
                       .standby = 20,
                       .reconfigure = 30,
                       .grow = 20,
                       .grow_wait = 120,
                       .migrate = 10,
                       .load_memory = 5,
                       .load_durable = 60};
  return strategy;
}

void run(benchmark::State& state) {
  const auto protection = static_cast<StateProtection>(state.range(0));
  const int nodes = static_cast<int>(state.range(1));
  const TrainedJob job{
      .step_seconds = 2.9, .nodes = nodes, .nodes_least = nodes / 2, .stages = 16, .rounds = 32};
  int64_t interruptions = 0;
  uint64_t seed = 1;
  for (auto _ : state) {
    const auto source = draw_availability(law_of(nodes), nodes + nodes / 4, 0, seed++);
    const SimulatedRun result =
        simulate_run(job, strategy_of(protection), *source, {.wall_seconds = kHorizon});
    interruptions += result.interruptions;
    state.counters["ettr"] = result.ettr();
  }
  state.counters["interruptions"] =
      benchmark::Counter(static_cast<double>(interruptions), benchmark::Counter::kAvgIterations);
}
BENCHMARK(run)->ArgsProduct({{0, 1, 2, 3, 4}, {16, 16384}})->Unit(benchmark::kMillisecond);

void availability(benchmark::State& state) {
  const int nodes = static_cast<int>(state.range(0));
  uint64_t seed = 1;
  for (auto _ : state) {
    const auto source = draw_availability(law_of(nodes), nodes, 0, seed++);
    while (source->next()->seconds < kHorizon) {
    }
  }
}
BENCHMARK(availability)->Arg(16)->Arg(16384)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace evermoe

BENCHMARK_MAIN();
