// The records of a run's newest commits, as bytes that only the trainer understands: what a step
// consumed that other stages produced (global clip factor, loss scale, skip flag, token counts). A
// rank that runs a stretch of the program again takes them from here instead of asking the world
// again.
//
// Every rank has the same records. Threads: any.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "protection/logs/commit.h"

namespace evermoe {

using RecordBytes = std::vector<std::byte>;

class RecordLog {
 public:
  // Keeps a record; one that is there already must have the same bytes (Contradiction).
  absl::Status put(Commit commit, const RecordBytes& record);
  std::optional<RecordBytes> find(Commit commit) const;
  // Every record from `first` on, in order.
  std::vector<std::pair<Commit, RecordBytes>> from(Commit first) const;
  // Commit(-1) if there is none.
  Commit newest() const;
  size_t size() const;
  void free_before(Commit commit);
  void clear();

 private:
  mutable Mutex mutex_;
  std::map<Commit, RecordBytes> records_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace evermoe
