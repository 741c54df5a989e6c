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
  return true;
}

int64_t RoleProcesses::begin(Rank rank, Node node, absl::Duration now) {
  of(rank) = {.start = (life_ << 32) + ++starts_, .node = node, .heard = now};
  return of(rank).start;
}

}  // namespace evermoe
