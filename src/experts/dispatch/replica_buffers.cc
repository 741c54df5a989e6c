#include "experts/dispatch/replica_buffers.h"

#include <algorithm>

#include "base/check.h"
#include "experts/placement/load_sharing.h"

namespace evermoe {
namespace {

// Where an expert's rows stand among those of its lane.
size_t index_on(const ExpertPlacement& placement, int lane, int expert) {
  const std::vector<int>& hosted = placement.experts_on(lane);
  const auto at = std::lower_bound(hosted.begin(), hosted.end(), expert);
  CHECK(at != hosted.end() && *at == expert)
      << "lane " << lane << " has no replica of expert " << expert;
  return static_cast<size_t>(at - hosted.begin());
}

}  // namespace

SendPlan plan_replica_send(std::span<const int64_t> experts, const RankDispatch& dispatch,
                           const ExpertPlacement& placement) {
  // A run and the positions of its rows in the send buffer: the order of the runs is that of the
  // buffer.
  struct Stretch {
    int64_t next = 0;
    int64_t end = 0;
  };
  SendPlan plan;
  plan.rows_to.resize(placement.lane_count(), 0);
  for (int lane = 0; lane < placement.lane_count(); ++lane) {
    plan.counts.emplace_back(placement.experts_on(lane).size(), 0);
  }
  std::vector<std::vector<Stretch>> stretches_of(placement.experts());  // by expert, in input order
  int64_t rows = 0;
  for (const TokenRun& run : dispatch.sends) {
    plan.counts[run.peer][index_on(placement, run.peer, run.expert)] = run.tokens;
    plan.rows_to[run.peer] += run.tokens;
    stretches_of[run.expert].push_back({rows, rows + run.tokens});
    rows += run.tokens;
  }
  CHECK(rows == static_cast<int64_t>(experts.size()))
      << rows << " rows planned for " << experts.size() << " choices";

  plan.choice_order.resize(experts.size());
  plan.choice_position.resize(experts.size());
  std::vector<size_t> stretch(stretches_of.size(), 0);
  for (size_t choice = 0; choice < experts.size(); ++choice) {
    const auto expert = static_cast<size_t>(experts[choice]);
    auto& stretches = stretches_of[expert];
    while (stretch[expert] < stretches.size() &&
           stretches[stretch[expert]].next == stretches[stretch[expert]].end) {
      ++stretch[expert];
    }
    CHECK(stretch[expert] < stretches.size())
        << "more choices of expert " << expert << " than planned";
    const int64_t position = stretches[stretch[expert]].next++;
    plan.choice_order[position] = static_cast<int64_t>(choice);
    plan.choice_position[choice] = position;
  }
  return plan;
}

SendPlan plan_replica_send(std::span<const int64_t> experts, int own_lane,
                           std::span<const int64_t> tokens, const ExpertPlacement& placement) {
  const auto of_lane = static_cast<size_t>(placement.experts());
  LoadSharing sharing(tokens, placement);
  sharing.even_out();
  std::vector<int> parts(of_lane * static_cast<size_t>(placement.lane_count()), 0);
  for (int expert = 0; expert < placement.experts(); ++expert) {
    for (const LoadSharing::Replica& replica : sharing.replicas_of(expert))
      parts[static_cast<size_t>(replica.lane) * of_lane + static_cast<size_t>(expert)] =
          static_cast<int>(replica.part);
  }
  const auto dispatch = ReplicaDispatch::create({.ranks = placement.lane_count(),
                                                 .experts = placement.experts(),
                                                 .tokens = tokens,
                                                 .replicas = parts,
                                                 .host_of = {}});
  CHECK_OK(dispatch.status());
  return plan_replica_send(experts, dispatch->of_rank(own_lane), placement);
}

std::vector<std::vector<int64_t>> replica_receive_counts(const RankDispatch& dispatch, int own_lane,
                                                         const ExpertPlacement& placement) {
  std::vector<std::vector<int64_t>> counts(
      placement.lane_count(), std::vector<int64_t>(placement.experts_on(own_lane).size(), 0));
  for (const TokenRun& run : dispatch.receives) {
    counts[run.peer][index_on(placement, own_lane, run.expert)] = run.tokens;
  }
  return counts;
}

}  // namespace evermoe
