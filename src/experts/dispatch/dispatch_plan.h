// Who sends which token rows to which lane, and where they go there: the index arithmetic of expert
// parallelism, pure and on host integers.
//
// A *choice* is one of the top_k experts of one token: choice = token * top_k + k. The sender
// orders its choices by (serving lane, expert, choice); the receiver regroups what it got from all
// lanes by (expert, source lane, arrival), which is micro-batch order within an expert. Nothing is
// dropped or padded on the wire. In the receiver's *expert layout* an expert with 1 to 3 rows is
// padded to 4, because fp32 matrix kernels give rows other bits when there are fewer than 4 of
// them; and the caller may ask for multiples of more, because some kernels are generated anew for
// every number of rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "experts/placement/expert_placement.h"

namespace evermoe {

inline constexpr int64_t kExpertRowsMin = 4;

struct SendPlan {
  // counts[lane][i]: rows for the i-th expert of experts_on(lane).
  std::vector<std::vector<int64_t>> counts;
  std::vector<int64_t> rows_to;          // by lane: the sum of its counts
  std::vector<int64_t> choice_order;     // position in the send buffer -> choice
  std::vector<int64_t> choice_position;  // choice -> position in the send buffer
};

// `experts` holds the chosen expert of every choice of this lane's micro-batch. REQUIRES: every
// expert is on one lane; for replicas see replica_buffers.h.
SendPlan plan_send(std::span<const int64_t> experts, const ExpertPlacement& placement);

struct ExpertRows {
  int expert = 0;
  int64_t begin = 0;   // first row in the expert layout
  int64_t rows = 0;    // real rows
  int64_t padded = 0;  // rows including zero rows; 0 if rows is 0
};

struct ReceivePlan {
  std::vector<int64_t> rows_from;   // by source lane
  int64_t received = 0;             // rows in the receive buffer (source lanes in order)
  std::vector<ExpertRows> experts;  // one entry per hosted expert, ascending
  int64_t layout_rows = 0;
  // Row of the expert layout -> row of the receive buffer; padding rows name row `received`, which
  // the caller keeps zero.
  std::vector<int64_t> layout_source;
  std::vector<int64_t> layout_position;  // row of the receive buffer -> row of the expert layout
};

// `counts_from[lane][i]`: rows that `lane` sends for the i-th expert of experts_on(own_lane).
// Experts with any rows are padded to a multiple of `row_multiple`, and to kExpertRowsMin.
ReceivePlan plan_receive(const std::vector<std::vector<int64_t>>& counts_from, int own_lane,
                         const ExpertPlacement& placement, int64_t row_multiple);

}  // namespace evermoe
