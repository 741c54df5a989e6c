// The verdict: the commit point of a step. One world-wide all-reduce carries what every rank found;
// its result, the same on every rank, decides what the optimizer does. Nobody applies without it.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "checkpoint/format/training_position.h"
#include "comm/communicator.h"
#include "config/job_config.h"
#include "recovery/protocol/findings.h"
#include "train/layers/non_finite.h"

namespace evermoe {

// What one rank contributes. Sums over the rank's own shards and micro-batches.
struct StepFindings {
  double gradient_square_sum = 0;  // of its gradient shards, times loss_scale^2; may be non-finite
  double loss_sum = 0;             // over its micro-batches (last stage)
  double auxiliary_loss_sum = 0;
  double load_imbalance_sum = 0;  // over its micro-batches and gates
  double gate_count = 0;          // how many of those
  double tokens = 0;              // trained (last stage)
  double hits = 0;                // evaluated targets that the model held to be the likeliest
  // Combined by minimum instead of sum:
  Step prepared;  // newest checkpoint that this rank has durable; Step(-1) for none
  // The same on its machine's own disk. Combined: -1 unless all say the same, for who is ahead may
  // have failed to save what the others have.
  Step prepared_locally{-1};
  bool drain = false;         // this rank was asked to stop
  Step published = kUnknown;  // newest checkpoint that rank 0 has published; the others do not know
  int64_t non_finite =
      kAllFinite;  // key of the first place where this rank met a number that is not finite
  // The first micro-batch whose samples are at fault (examination.h).
  int64_t poisoned = kNoMicroBatch;
  // Combined by maximum:
  int64_t save_interval = 0;  // steps between two saves that this rank wants (SavePace)
  Step refused{-1};           // newest checkpoint that a disk has refused for good
  Step last_save{-1};         // SavePace::last()
  // Of each MoE layer of the model, what its stage's first lane has counted (normalised_hhi());
  // 0 of other stages' layers. Summed. As long on every rank, and at every commit.
  std::vector<double> routing_skew;
  // Where experts move by load: of each MoE layer and expert, the tokens that chose it, likewise.
  std::vector<double> expert_tokens;

  static constexpr Step kUnknown{std::numeric_limits<int64_t>::max()};
  static constexpr int64_t kNoMicroBatch = std::numeric_limits<int64_t>::max();
};

// The few scalars that a step consumed and every rank agrees on.
struct StepRecord {
  Step step;                    // the state that the step led to
  bool applied = true;          // false: loss or gradients were not finite, the update was skipped
  double gradient_norm = 0;     // unscaled, before clipping
  double gradient_divisor = 1;  // gradients are divided by this: loss scale / clip factor
  double loss_scale = 1;        // that the step used
  double learning_rate = 0;
  double loss = 0;  // mean over micro-batches
  double auxiliary_loss = 0;
  double load_imbalance = 0;  // mean over micro-batches and gates of largest / mean expert load
  std::vector<double> routing_skew;  // normalised HHI of the step's choices, by MoE layer
  int64_t tokens = 0;
  Step prepared;                    // every rank has this checkpoint durable; Step(-1) for none
  Step prepared_locally{-1};        // every rank has it on its machine's own disk; Step(-1)
  bool drain = false;               // some rank was asked to stop
  int64_t non_finite = kAllFinite;  // key of the first place that any rank knows
  int64_t poisoned = StepFindings::kNoMicroBatch;  // micro-batch whose samples are at fault
  int64_t save_interval = 0;                       // the longest that any rank wants
  Step published = StepFindings::kUnknown;         // of rank 0, if it has said so
  Step refused{-1};                                // the newest that any rank knows
  Step last_save{-1};                              // likewise, that was due
  double lost_token_share = 0;  // of the run so far, with checkpoints of a few experts
};

// As vectors to be added, and to be combined by minimum, in role order, so with equal bits
// everywhere.
Findings to_findings(const StepFindings& own);
// CHECKs the lengths. `moe_layers`: of the model.
StepFindings from_findings(const Findings& combined, size_t moe_layers);

// Pure. `before` is the position that the step started from; `combined` the world's findings.
StepRecord decide(const StepFindings& combined, const TrainConfig& train,
                  const TrainingPosition& before);

// Of FP16. A run may begin with a larger one.
inline constexpr double kLossScaleMin = 1, kLossScaleMax = 1 << 24;

// The position after the step: step, samples, updates, loss scale (halved on overflow, doubled
// after loss_scale_growth_steps good steps, but not beyond kLossScaleMax; FP16 only).
TrainingPosition advance(const TrainingPosition& before, const StepRecord& record,
                         const TrainConfig& train);

}  // namespace evermoe
