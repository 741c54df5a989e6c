// Lazarus: where replicas are, what survives, what moves, and what runs on few failing nodes.
//
// Setups as printed: 10 nodes of 6 expert slots, f = 2, 12 layers; GPT-S, GPT-M and GPT-L have 8, 12
// and 16 experts a layer. Loads are the paper's own trace (SmartMoE's), the busiest experts of
// its first 12 layers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experts/placement/replica_placement.h"
#include "planner/failures/failure_trace.h"
#include "planner/simulate/run_simulation.h"

namespace evermoe {

inline constexpr int kLazarusNodes = 10, kLazarusSlots = 6, kLazarusFaults = 2;
inline constexpr double kLazarusStateBytes = 14;  // of a parameter: 63 and 112 MiB an expert

struct LazarusModel {
  std::string name;
  int experts = 0;  // of a layer
  int hidden = 0;
  double parameters = 0;    // of the model
  int group_nodes = 0;      // that hold every expert once (EP size)
  double step_seconds = 0;  // from the steps that the paper counts
};
// GPT-S, GPT-M, GPT-L.
const std::vector<LazarusModel>& lazarus_models();
// Bytes of one expert's weights and optimizer state.
double lazarus_expert_bytes(const LazarusModel& model);

// Tokens by layer and expert at one iteration of the trace.
struct RoutingRow {
  int iteration = 0;
  int layer = 0;
  std::vector<int64_t> tokens;
};
// The text of smartmoe-expert-loads.csv. InvalidInput as CsvTable.
absl::StatusOr<std::vector<RoutingRow>> parse_routing(const std::string& text);

// By layer: the model's loads at an iteration, ascending.
using LayerLoads = std::vector<std::vector<int64_t>>;
LayerLoads lazarus_loads(const std::vector<RoutingRow>& routing, int iteration, int experts);
// One layer of 8 experts of which one gets `ratio` times its even share (Fig. 10).
LayerLoads uneven_loads(int ratio);

// By the number of failed nodes: the probability that all layers keep every expert.
std::vector<double> model_survival(const LayerLoads& loads, PlacementMethod method);

// The busiest node's load over the mean: with Lazarus's replicas, and with groups of nodes that
// hold every expert once.
struct LayerSlowdown {
  double adaptive = 1;
  double groups = 1;
};
LayerSlowdown mean_slowdown(const LayerLoads& loads, int group_nodes);

// What moves when `lost` of the 10 nodes fail, over all sets of them that are survived.
struct MigrationRange {
  int sets = 0;                 // of lost nodes
  int survived = 0;             // of them
  int64_t least = 0, most = 0;  // experts moved, all layers
  double mean = 0;
  double round_seconds = 0;  // mean of rounds x expert's bytes at 100 Gbit/s
};
MigrationRange migrations(const LazarusModel& model, const LayerLoads& loads, int lost);

enum class LazarusSystem { kLazarus, kDeepSpeed, kDeepSpeedFaultTolerant };

// A run of a model by a system. `save_every` (steps): of DeepSpeed's saves, or of what the others
// fall back to.
struct LazarusRun {
  LazarusModel model;
  LazarusSystem system = LazarusSystem::kLazarus;
  int64_t save_every = 250;
  double wall_seconds = 1800;
};
struct LazarusRunEnd {
  SimulatedRun run;
  double samples = 0;
};
LazarusRunEnd play_lazarus(const LazarusRun& run, const FailureTrace& failures);

// Five nodes are lost, one every `seconds`, for good (Fig. 6 and 7).
FailureTrace one_by_one(double seconds);
// Spot instances with at most 10 nodes at a time: at first the four that go at minute 34 and six
// others, later whoever comes while a place is free (Fig. 9). `trace` is bamboo-ec2-p3.csv's.
FailureTrace ten_spot_nodes(const FailureTrace& trace);

// Job completion times of DeepSeek-V3 over Lazarus's (Fig. 13), without what unequal loads cost.
struct CompletionRatios {
  double fault_tolerant = 0;
  double deep_speed = 0;
};
CompletionRatios completion_ratios(int nodes, double lost_per_hour, int runs);

}  // namespace evermoe
