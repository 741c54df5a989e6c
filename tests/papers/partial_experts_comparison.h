// PEC (Partial Experts Checkpoint): bytes, division over ranks and lost tokens, by the code that
// decides them here.
#pragma once

#include <cstdint>
#include <vector>

#include "model/model_shape.h"

namespace evermoe {

// GPT2-MoE-Small of the paper's Table 1: GPT-2 small, every second layer with 8 experts. The paper
// does not say whether embedding and head share their weights; here they do not, which alone
// gives its 15 % (partial_experts_test.cc).
ModelShape pec_model();

// Bytes of master weights and moments in a checkpoint with `saved` experts of each layer.
// REQUIRES: 1 <= saved <= experts.
double partial_checkpoint_bytes(const ModelShape& shape, int saved);

// What the ranks of pec_model() write, as parameters: 8 ranks, an expert of every layer on each.
struct RankLoads {
  double whole = 0;          // by a rank that writes all it holds, every expert
  double partial_mean = 0;   // likewise with K experts of a layer, the mean of ranks
  double equal_peak = 0;     // non-experts divided by module once for all (EDPS): busiest rank
  double adaptive_peak = 0;  // divided by module around the experts of the save (ADPS)
  double zero_peak = 0;      // by this runtime's ZeRO-1 shards
  double water_peak = 0;     // cut anywhere around the experts: the least possible
};
// Peaks are the greatest over all saves of a cycle. Experts are chosen in sequence.
RankLoads pec_rank_loads(int saved);

// A run of one layer of 8 experts on two nodes, 100 tokens for each expert and step, through
// failures at given steps.
struct PartialRun {
  int saved = 1;           // Kp
  int in_memory = 1;       // Ks
  int64_t every = 10;      // steps between saves
  int64_t steps = 1000;    // of the whole run
  bool whole_job = false;  // each failure takes both nodes, otherwise the first
  double plt_max = 1;      // 1: K stays
};
struct PartialRunEnd {
  double plt = 0;
  int saved = 1;  // K at the end
};
// Plays protection/partial_experts/partial_saves.h as ranks do. `faults`: ascending, each after so
// many steps for the first time.
PartialRunEnd play_partial_run(const PartialRun& run, const std::vector<int64_t>& faults);

// PLT of one failure, the mean over all its places in a cycle of saves in the middle of the run.
double mean_plt(const PartialRun& run);

}  // namespace evermoe
