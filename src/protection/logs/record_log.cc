#include "protection/logs/record_log.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {

absl::Status RecordLog::put(Commit commit, const RecordBytes& record) {
  const MutexLock lock(mutex_);
  const auto [at, is_new] = records_.emplace(commit, record);
  if (is_new || at->second == record) return absl::OkStatus();
  return Contradiction(absl::StrCat("step ", step_of(commit).value,
                                    ": two different records of commit ", commit.value));
}

std::optional<RecordBytes> RecordLog::find(Commit commit) const {
  const MutexLock lock(mutex_);
  const auto found = records_.find(commit);
  if (found == records_.end()) return std::nullopt;
  return found->second;
}

std::vector<std::pair<Commit, RecordBytes>> RecordLog::from(Commit first) const {
  const MutexLock lock(mutex_);
  return {records_.lower_bound(first), records_.end()};
}

Commit RecordLog::newest() const {
  const MutexLock lock(mutex_);
  return records_.empty() ? Commit(-1) : records_.rbegin()->first;
}

size_t RecordLog::size() const {
  const MutexLock lock(mutex_);
  return records_.size();
}

void RecordLog::free_before(Commit commit) {
  const MutexLock lock(mutex_);
  records_.erase(records_.begin(), records_.lower_bound(commit));
}

void RecordLog::clear() {
  const MutexLock lock(mutex_);
  records_.clear();
}

}  // namespace evermoe
