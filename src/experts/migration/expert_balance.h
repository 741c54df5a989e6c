// Where the experts of a model live when replicas follow the load, and when they move.
//
// Both follow from what the gates have chosen, counted in whole tokens, and from how many lanes a
// stage has: so every rank knows them without a word, a stage that goes back comes to the same
// placements again, and a job that goes on from a checkpoint has those of the job that wrote it.
// The balance is part of the training position. Nothing that is measured enters it.
//
// Replicas beyond what `faults` asks for cost additions of gradients, so there are as few as bring
// the busiest lane within `gain` of the best. What a lane has to do is judged as dispatch shares
// tokens out (placement/load_sharing.h).
//
// At the states that are multiples of rebalance_every_steps each layer is looked at: it gets
// another placement (placement/load_placement.h, played by the lanes that lack least of it:
// node_matching.h) if that makes its busiest lane less busy by the factor `gain`. Asked again at
// the same state nothing more moves.
//
// Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "experts/placement/expert_placement.h"
#include "experts/placement/load_placement.h"

namespace evermoe {

// How long loads are remembered decides how well they foretell the time until the next decision:
// bench/experts/load_memory_bench. A trend in them foretells nothing more.
struct BalanceOptions {
  int slots = 0;     // as in LoadPlacementOptions; 0: what `replicas` of every expert take, and one
  int replicas = 1;  // for slots = 0
  int faults = 0;
  int64_t every_steps = 200;
  int64_t memory_steps = 50;  // over so many older steps come to weigh less and less
  double gain = 1.05;         // today's slowdown divided by the new one's (rebalance.h)
};

// Experts of a layer that a lane holds at most.
int slots_of_lane(const BalanceOptions& options, int experts, int lanes);

// Of an MoE layer.
struct LayerBalance {
  // By expert: mean tokens of a step times kLoadUnit, older steps weighing less and less.
  std::vector<int64_t> loads;
  ExpertsOfNodes experts_of;  // by lane, ascending; empty: not placed yet
  friend bool operator==(const LayerBalance&, const LayerBalance&) = default;
};
inline constexpr int64_t kLoadUnit = 1 << 16;

// By MoE layer of the model. Empty: experts do not move.
using ExpertBalance = std::vector<LayerBalance>;

// Nothing is counted and nothing placed.
ExpertBalance initial_balance(int64_t layers, int64_t experts);

// Places the layers that are not placed for so many lanes; lanes[l]: of the stage of MoE layer l.
void settle(ExpertBalance& balance, std::span<const int> lanes, const BalanceOptions& options);

// A step's choices: by layer and expert, one layer after the other.
void count_step(ExpertBalance& balance, std::span<const double> tokens,
                const BalanceOptions& options);

inline bool is_balance_due(Step state, const BalanceOptions& options) {
  return state > Step(0) && state.value % options.every_steps == 0;
}

// The same placements, or better ones. Slowdowns are means over the layers.
struct Rebalance {
  ExpertBalance balance;
  std::vector<bool> moves;  // by layer
  double imbalance_before = 1, imbalance_after = 1;
};
// REQUIRES: the balance is settled.
Rebalance rebalanced(const ExpertBalance& balance, const BalanceOptions& options);

// What people are told of a move.
struct ExpertMove {
  Step step;                                         // the state
  int64_t moved_bytes = 0;                           // that lanes of all stages lacked
  double imbalance_before = 1, imbalance_after = 1;  // as in Rebalance
  double pause_seconds = 0;                          // for which the teller's stage waited
  friend bool operator==(const ExpertMove&, const ExpertMove&) = default;
};

ExpertPlacement placement_of(const LayerBalance& layer);

// As numbers, for a position that is captured.
std::vector<int64_t> to_numbers(const ExpertBalance& balance);
// Corrupt unless they are such, of as many layers and experts.
absl::StatusOr<ExpertBalance> balance_from(std::span<const int64_t> numbers, int64_t layers,
                                           int64_t experts);

// Whether every expert is on a lane, none twice on one, and nothing else.
bool is_placed_well(const ExpertsOfNodes& experts_of, int64_t experts);

}  // namespace evermoe
