#include "control/controller/relay/role_processes.h"

#include <algorithm>

namespace evermoe {

std::vector<Rank> RoleProcesses::alive() const {
  std::vector<Rank> ranks;
  for (size_t rank = 0; rank < newest_.size(); ++rank) {
    if (newest_[rank].pid != 0) ranks.push_back(Rank(static_cast<int32_t>(rank)));
  }
  return ranks;
}

bool RoleProcesses::hear(Rank rank, int64_t start, Node node, absl::Duration lived) {
  Process& newest = of(rank);
  if (start < newest.start) return false;
  if (start > newest.start) newest = {.start = start, .node = node};
  newest.heard = std::max(newest.heard, lived);
  newest.unconfirmed.reset();
  return true;
}

int64_t RoleProcesses::begin(const StartWorker& order, absl::Duration now) {
  of(order.rank) = {.start = (life_ << 32) + ++starts_,
                    .node = order.node,
                    .since = order.since,
                    .heard = now,
                    .unconfirmed = order};
  return of(order.rank).start;
}

}  // namespace evermoe
