#include "experts/dispatch/dispatch_plan.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace evermoe {
namespace {

int64_t padded_rows(int64_t rows, int64_t multiple) {
  if (rows == 0) return 0;
  return (std::max(rows, kExpertRowsMin) + multiple - 1) / multiple * multiple;
}

}  // namespace

SendPlan plan_send(std::span<const int64_t> experts, const ExpertPlacement& placement) {
  CHECK(!placement.has_replicas()) << "which replica serves a token is not planned here";
  SendPlan plan;
  const int lanes = placement.lane_count();
  // Buckets in send order: for each lane its hosted experts.
  std::vector<int64_t> first_bucket(lanes + 1, 0);
  for (int lane = 0; lane < lanes; ++lane) {
    first_bucket[lane + 1] =
        first_bucket[lane] + static_cast<int64_t>(placement.experts_on(lane).size());
  }
  std::vector<int64_t> bucket_of(placement.experts());
  for (int expert = 0; expert < placement.experts(); ++expert) {
    const int lane = placement.lanes_of(expert).front();
    const auto& hosted = placement.experts_on(lane);
    bucket_of[expert] = first_bucket[lane] +
                        (std::lower_bound(hosted.begin(), hosted.end(), expert) - hosted.begin());
  }

  std::vector<int64_t> bucket_rows(first_bucket[lanes], 0);
  for (const int64_t expert : experts) {
    CHECK(expert >= 0 && expert < placement.experts()) << "expert " << expert;
    ++bucket_rows[bucket_of[expert]];
  }
  std::vector<int64_t> next(bucket_rows.size(), 0);
  std::exclusive_scan(bucket_rows.begin(), bucket_rows.end(), next.begin(), int64_t{0});
  plan.choice_order.resize(experts.size());
  plan.choice_position.resize(experts.size());
  for (size_t choice = 0; choice < experts.size(); ++choice) {
    const int64_t position = next[bucket_of[experts[choice]]]++;
    plan.choice_order[position] = static_cast<int64_t>(choice);
    plan.choice_position[choice] = position;
  }
  for (int lane = 0; lane < lanes; ++lane) {
    plan.counts.emplace_back(bucket_rows.begin() + first_bucket[lane],
                             bucket_rows.begin() + first_bucket[lane + 1]);
    plan.rows_to.push_back(
        std::accumulate(plan.counts.back().begin(), plan.counts.back().end(), int64_t{0}));
  }
  return plan;
}

ReceivePlan plan_receive(const std::vector<std::vector<int64_t>>& counts_from, int own_lane,
                         const ExpertPlacement& placement, int64_t row_multiple) {
  ReceivePlan plan;
  const std::vector<int>& hosted = placement.experts_on(own_lane);
  const int lanes = placement.lane_count();
  // part_begin[lane][i]: where in the receive buffer the rows of (lane, i-th expert) begin.
  std::vector<std::vector<int64_t>> part_begin(lanes, std::vector<int64_t>(hosted.size()));
  for (int lane = 0; lane < lanes; ++lane) {
    const int64_t lane_begin = plan.received;
    for (size_t i = 0; i < hosted.size(); ++i) {
      part_begin[lane][i] = plan.received;
      plan.received += counts_from[lane][i];
    }
    plan.rows_from.push_back(plan.received - lane_begin);
  }
  plan.layout_position.resize(plan.received);
  for (size_t i = 0; i < hosted.size(); ++i) {
    ExpertRows rows{.expert = hosted[i], .begin = plan.layout_rows};
    for (int lane = 0; lane < lanes; ++lane) {
      for (int64_t row = 0; row < counts_from[lane][i]; ++row) {
        plan.layout_position[part_begin[lane][i] + row] =
            static_cast<int64_t>(plan.layout_source.size());
        plan.layout_source.push_back(part_begin[lane][i] + row);
      }
      rows.rows += counts_from[lane][i];
    }
    rows.padded = padded_rows(rows.rows, row_multiple);
    plan.layout_source.resize(plan.layout_rows + rows.padded, plan.received);
    plan.layout_rows += rows.padded;
    plan.experts.push_back(rows);
  }
  return plan;
}

}  // namespace evermoe
