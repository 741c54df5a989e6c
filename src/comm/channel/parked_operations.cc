#include "comm/channel/parked_operations.h"

#include <utility>

namespace evermoe {

bool ParkedOperations::withdraw(PendingOperation* operation) {
  const auto found = by_rank_.find(operation->peer);
  return found != by_rank_.end() && found->second.remove(operation);
}

Fifo<PendingOperation> ParkedOperations::take(Rank rank) {
  const auto found = by_rank_.extract(rank);
  return found ? found.mapped() : Fifo<PendingOperation>();
}

void ParkedOperations::fail(Rank rank, const absl::Status& reason) {
  for (Fifo<PendingOperation> parked = take(rank); !parked.empty();) parked.pop()->finish(reason);
}

void ParkedOperations::fail_all(const absl::Status& reason) {
  for (auto& [rank, parked] : std::exchange(by_rank_, {})) {
    for (Fifo<PendingOperation> rest = parked; !rest.empty();) rest.pop()->finish(reason);
  }
}

void ParkedOperations::revoke(GroupRange groups, View last, const absl::Status& reason) {
  for (auto& [rank, parked] : by_rank_) {
    Fifo<PendingOperation> kept;
    while (!parked.empty()) {
      PendingOperation* const operation = parked.pop();
      if (groups.contains(operation->tag.group) && operation->tag.view <= last) {
        operation->finish(reason);
      } else {
        kept.push(operation);
      }
    }
    parked = kept;
  }
}

}  // namespace evermoe
