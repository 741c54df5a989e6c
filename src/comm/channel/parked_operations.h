// Operations of a channel that wait for a connection, in the order in which they were started.
#pragma once

#include <map>
#include <optional>

#include "absl/status/status.h"
#include "base/ids.h"
#include "comm/channel/pending_operation.h"

namespace evermoe {

// Not synchronised: the channel's mutex guards it. It finishes operations, never deletes them.
class ParkedOperations {
 public:
  void add(PendingOperation* operation) { by_rank_[operation->peer].push(operation); }

  // Takes an unfinished operation back. True if it was here.
  bool withdraw(PendingOperation* operation);

  // All that wait for the rank: the caller begins them.
  Fifo<PendingOperation> take(Rank rank);

  // Finish what waits for one rank, or for any, or is of a view that is over.
  void fail(Rank rank, const absl::Status& reason);
  void fail_all(const absl::Status& reason);
  void revoke(GroupRange groups, View last, const absl::Status& reason);

 private:
  std::map<Rank, Fifo<PendingOperation>> by_rank_;
};

}  // namespace evermoe
