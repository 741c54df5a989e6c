// How protection changes with scale: the same job on more and more GPUs, up to 131,072 and beyond.
//
// The batch grows with the GPUs (weak scaling), failures come as often per node, and every size is
// planned anew. With 6.5 failures per 1000 node-days (RSC-1) 1024 GPUs fail once in 28.8 h, 131,072
// once in 13.5 min.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/plan/protection_plan.h"

namespace evermoe {

struct ScaleRow {
  int gpus = 0;
  int nodes = 0;
  double job_mtbf_seconds = 0;
  double step_seconds = 0;
  double tokens_per_step = 0;  // the batch
  std::string layout;          // in words
  std::string strategy;
  Estimate ettr;
  RunEstimates estimates;  // where the rest of the time goes
  double tokens_per_second = 0;
  int spares = 0;         // chosen
  int spares_wanted = 0;  // suffice until repair with the budget's probability
  double downtime_seconds_per_day = 0;
  double downtime_per_interruption_seconds = 0;
  double host_bytes_per_gpu = 0;
  std::string
      refused;  // why the job does not fit that many GPUs; then all from step_seconds on is empty
};

// One row for each number of GPUs. InvalidInput if a number is not a whole number of nodes, or as
// of plan_protection(), with the number of GPUs before it.
absl::StatusOr<std::vector<ScaleRow>> what_if_scale(const PlanInput& input,
                                                    std::span<const int> gpus);

// 8, 64, 512, 1024, 4096, 16384, 65536, 131072: those of them that are whole numbers of nodes.
std::vector<int> usual_scales(int gpus_per_node);

// What a reader of rows must know: the batch is not the same in all of them.
inline constexpr char kBatchGrows[] =
    "The batch grows with the GPUs (weak scaling), so that a step takes about as long at every "
    "size.";

// One sentence for every size at which the ETTR is higher than at the size before: why.
std::vector<std::string> explain_rises(std::span<const ScaleRow> rows);

std::string to_text(std::span<const ScaleRow> rows);
// A JSON array.
std::string to_json(std::span<const ScaleRow> rows);

}  // namespace evermoe
