// How long do the decisions about experts on nodes take at the size of the largest open models?
//
//   plan_layers        replica counts and MRO-q placement of 58 layers of 256 experts, 1024 nodes
//                      of 4 slots. Target 50 ms. 58 layers x 4096 replicas = 240k heap steps of
//                      about 0.1 us: 25 ms.
//   balance_layers     what the runtime decides instead (migration/expert_balance.h): 58 layers of 256
//                      experts on 64 and on 1024 lanes of 4 slots, placed before anything was
//                      counted. It is made once in rebalance_every_steps, by every rank, while
//                      training waits. Target 50 ms. On 1024 lanes a layer deals 6k replicas, matches
//                      a few hundred groups of lanes and makes 1024 lists: about 0.25 ms.
//   balance_drifted    the same, placed for the loads before each changed by up to 30 %
//   dispatch_of_rank   one rank's part of the exchange of a layer, 1024 ranks x 256 experts, from
//                      the gathered counts. Target 5 ms. 262k cells passed a few times: about 1 ms.
//   dispatch_hosts     the same with 8 ranks to a host
//   survival           every survival probability of a layer's plan. N^2 / 2 steps of a
//                      convolution: a few ms.
//   match_exact        which node plays which plan node after the loads drifted, so that least is
//                      fetched
//   match_greedy       the same, greedily with swaps
//   transfers          sources and rounds of that migration
//   copy_holders       the holders of 2 copies, 16 stages of 512 lanes on 1024 nodes of 8 ranks
//
//   placement_bench --benchmark_format=json
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "experts/dispatch/replica_buffers.h"
#include "experts/dispatch/replica_dispatch.h"
#include "experts/migration/expert_balance.h"
#include "experts/migration/expert_transfer.h"
#include "experts/migration/node_matching.h"
#include "experts/placement/replica_allocation.h"
#include "experts/placement/replica_placement.h"
#include "experts/placement/survival.h"
#include "parallel/failure_domains.h"
#include "parallel/random_testing.h"

namespace evermoe {
namespace {

constexpr int kLayers = 58, kExperts = 256, kNodes = 1024, kSlots = 4, kFaults = 2;

// A layer's tokens by expert: a heavy tail, as in traces of trained gates.
std::vector<int64_t> layer_loads(uint64_t layer) {
  TestRandom random(layer + 1);
  std::vector<int64_t> loads;
  for (int e = 0; e < kExperts; ++e)
    loads.push_back(static_cast<int64_t>(1000 / std::sqrt(1 - random.uniform())));
  return loads;
}

ReplicaPlacement layer_plan(const std::vector<int64_t>& loads,
                            std::span<const int> previous_order = {}) {
  const auto allocation = allocate_replicas(loads, kNodes, kSlots, kFaults);
  CHECK(allocation.ok());
  auto placement = place_replicas(allocation->replicas, kNodes, kSlots,
                                  {.faults = allocation->faults, .previous_order = previous_order});
  CHECK(placement.ok());
  return *std::move(placement);
}

void plan_layers(benchmark::State& state) {
  std::vector<std::vector<int64_t>> loads;
  for (int layer = 0; layer < kLayers; ++layer) loads.push_back(layer_loads(layer));
  for (auto _ : state) {
    for (const auto& of_layer : loads) benchmark::DoNotOptimize(layer_plan(of_layer));
  }
}
BENCHMARK(plan_layers)->Unit(benchmark::kMillisecond);

// By layer and expert, one layer after the other.
std::vector<double> tokens_of_layers() {
  std::vector<double> tokens;
  for (int layer = 0; layer < kLayers; ++layer) {
    for (const int64_t load : layer_loads(layer)) tokens.push_back(static_cast<double>(load));
  }
  return tokens;
}

void balance_layers(benchmark::State& state, bool is_placed_by_load) {
  const auto lanes = static_cast<int>(state.range(0));
  const BalanceOptions options{.slots = std::max(kSlots, 2 * kExperts / lanes), .every_steps = 1};
  ExpertBalance balance = initial_balance(kLayers, kExperts);
  const std::vector<int> lanes_of_layers(kLayers, lanes);
  settle(balance, lanes_of_layers, options);
  std::vector<double> tokens = tokens_of_layers();
  count_step(balance, tokens, options);
  if (is_placed_by_load) {
    balance = rebalanced(balance, options).balance;
    TestRandom random(7);
    for (double& of_expert : tokens) of_expert *= 0.7 + 0.6 * random.uniform();
    count_step(balance, tokens, options);
  }
  for (auto _ : state) {
    const Rebalance moved = rebalanced(balance, options);
    state.counters["slowdown"] = moved.imbalance_after;
  }
}
void balance_layers(benchmark::State& state) { balance_layers(state, false); }
BENCHMARK(balance_layers)->Arg(64)->Arg(kNodes)->Unit(benchmark::kMillisecond);
void balance_drifted(benchmark::State& state) { balance_layers(state, true); }
BENCHMARK(balance_drifted)->Arg(64)->Arg(kNodes)->Unit(benchmark::kMillisecond);

// Tokens [rank][expert] of 1024 tokens with 8 experts each, and the replicas of a layer's plan.
struct DispatchTables {
  std::vector<int64_t> tokens = std::vector<int64_t>(kNodes * kExperts, 0);
  std::vector<int> replicas = std::vector<int>(kNodes * kExperts, 0);

  DispatchTables() {
    const std::vector<int64_t> loads = layer_loads(0);
    std::vector<int64_t> until(loads.size());
    std::partial_sum(loads.begin(), loads.end(), until.begin());
    TestRandom random(99);
    for (int rank = 0; rank < kNodes; ++rank) {
      for (int i = 0; i < 1024 * 8; ++i) {
        const auto drawn =
            static_cast<int64_t>(random.uniform() * static_cast<double>(until.back()));
        const auto at = std::upper_bound(until.begin(), until.end(), drawn);
        ++tokens[rank * kExperts + (at - until.begin())];
      }
    }
    const ReplicaPlacement plan = layer_plan(loads);
    for (int node = 0; node < kNodes; ++node) {
      for (const int expert : plan.experts_of[node]) ++replicas[node * kExperts + expert];
    }
  }
};

void dispatch(benchmark::State& state, int ranks_per_host) {
  static const DispatchTables tables;
  std::vector<int> host_of;
  for (int rank = 0; rank < kNodes; ++rank) host_of.push_back(rank / ranks_per_host);
  int rank = 0;
  for (auto _ : state) {
    const auto dispatch = ReplicaDispatch::create({.ranks = kNodes,
                                                   .experts = kExperts,
                                                   .tokens = tables.tokens,
                                                   .replicas = tables.replicas,
                                                   .host_of = host_of});
    CHECK(dispatch.ok());
    benchmark::DoNotOptimize(dispatch->of_rank(rank));
    rank = (rank + 37) % kNodes;
  }
}
void dispatch_of_rank(benchmark::State& state) { dispatch(state, 1); }
BENCHMARK(dispatch_of_rank)->Unit(benchmark::kMillisecond);
void dispatch_hosts(benchmark::State& state) { dispatch(state, 8); }
BENCHMARK(dispatch_hosts)->Unit(benchmark::kMillisecond);

// As training does: lanes that are even share the tokens out, and this rank's buffers.
void dispatch_shared(benchmark::State& state) {
  static const DispatchTables tables;
  std::vector<std::vector<int>> lanes_of(kExperts);
  for (int node = 0; node < kNodes; ++node) {
    for (int expert = 0; expert < kExperts; ++expert)
      if (tables.replicas[node * kExperts + expert] > 0) lanes_of[expert].push_back(node);
  }
  const ExpertPlacement placement(std::move(lanes_of), kNodes);
  std::vector<int64_t> chosen;
  for (int expert = 0; expert < kExperts; ++expert)
    chosen.insert(chosen.end(), static_cast<size_t>(tables.tokens[expert]), expert);
  for (auto _ : state)
    benchmark::DoNotOptimize(plan_replica_send(chosen, 0, tables.tokens, placement));
}
BENCHMARK(dispatch_shared)->Unit(benchmark::kMillisecond);

void survival(benchmark::State& state) {
  const ReplicaPlacement plan = layer_plan(layer_loads(0));
  for (auto _ : state) benchmark::DoNotOptimize(survival_curve(plan.experts_of, kExperts));
}
BENCHMARK(survival)->Unit(benchmark::kMillisecond);

// A plan, and the one after each load changed by up to 30 %.
struct Drift {
  ReplicaPlacement before, after;

  Drift() {
    std::vector<int64_t> loads = layer_loads(0);
    before = layer_plan(loads);
    TestRandom random(7);
    for (int64_t& load : loads)
      load = static_cast<int64_t>(static_cast<double>(load) * (0.7 + 0.6 * random.uniform()));
    after = layer_plan(loads, before.order);
  }
};

void match(benchmark::State& state, int exact_nodes_max) {
  const Drift drift;
  for (auto _ : state) {
    const NodeMatching matching =
        match_nodes(drift.before.experts_of, drift.after.experts_of, exact_nodes_max);
    state.counters["fetched"] = static_cast<double>(matching.fetched);
  }
}
void match_exact(benchmark::State& state) { match(state, kMatchingExactNodesMax); }
BENCHMARK(match_exact)->Unit(benchmark::kMillisecond);
void match_greedy(benchmark::State& state) { match(state, 0); }
BENCHMARK(match_greedy)->Unit(benchmark::kMillisecond);

void transfers(benchmark::State& state) {
  const Drift drift;
  const ExpertsOfNodes wanted = on_physical_nodes(
      drift.after.experts_of, match_nodes(drift.before.experts_of, drift.after.experts_of));
  for (auto _ : state) {
    const TransferPlan plan = plan_transfers(drift.before.experts_of, wanted);
    state.counters["rounds"] = plan.rounds;
  }
}
BENCHMARK(transfers)->Unit(benchmark::kMillisecond);

void holders(benchmark::State& state) {
  const Topology topology(std::vector<int>(16, 512), 16);
  std::vector<int> node_of_rank;
  for (int rank = 0; rank < topology.world_size(); ++rank) node_of_rank.push_back(rank / 8);
  const FailureDomains domains = FailureDomains::nodes_only(kNodes);
  for (auto _ : state)
    benchmark::DoNotOptimize(copy_holders(topology, node_of_rank, domains, {.copies = 2}));
}
BENCHMARK(holders)->Name("copy_holders")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace evermoe

BENCHMARK_MAIN();
