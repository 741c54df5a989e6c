#include "protection/logs/boundary_log.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {
namespace {

absl::Status differs(const BoundaryName& name, const Fingerprint& before, const Fingerprint& now) {
  return Contradiction(absl::StrCat("computed again, the ", to_string(name),
                                    " has other bits: fingerprint ", to_hex(now), " instead of ",
                                    to_hex(before)));
}

// Names are sorted by commit first.
Commit next(Commit commit) { return Commit(commit.value + 1); }
BoundaryName first_of(Commit commit) {
  return {commit, BoundaryDirection::kActivation, MicroBatch(0)};
}

}  // namespace

std::string to_string(const BoundaryName& name) {
  const Step step = step_of(name.commit);
  const bool is_of_step = name.commit == verdict_commit(step);
  return absl::StrCat(
      name.direction == BoundaryDirection::kActivation ? "activation" : "gradient",
      " of micro-batch ", name.micro_batch.value, " of step ", step.value,
      is_of_step ? ""
                 : absl::StrCat(", batch ", name.commit.value - evaluation_commit(step).value,
                                " of its evaluation"));
}

absl::StatusOr<std::vector<BoundaryLog::Waiting>> BoundaryLog::put(const BoundaryName& name,
                                                                   BoundaryMessage message) {
  const Fingerprint now = fingerprint(message.bytes);
  const MutexLock lock(mutex_);
  const auto size = static_cast<int64_t>(message.bytes.size());
  if (const auto found = kept_.find(name); found != kept_.end()) {
    if (found->second.fingerprint != now) return differs(name, found->second.fingerprint, now);
  } else {
    if (bytes_ + size > bytes_max_) {
      return NoCapacity(absl::StrCat("the boundary log would hold ", bytes_ + size,
                                     " bytes, more than its limit of ", bytes_max_));
    }
    kept_.emplace(name, Kept{std::move(message), now});
    bytes_ += size;
    bytes_peak_ = std::max(bytes_peak_, bytes_);
  }
  auto waiting = waiting_.extract(name);
  return waiting.empty() ? std::vector<Waiting>() : std::move(waiting.mapped());
}

std::optional<BoundaryMessage> BoundaryLog::find_or_wait(const BoundaryName& name,
                                                         Waiting waiting) {
  const MutexLock lock(mutex_);
  if (const auto found = kept_.find(name); found != kept_.end()) return found->second.message;
  std::vector<Waiting>& all = waiting_[name];
  if (std::find(all.begin(), all.end(), waiting) == all.end()) all.push_back(waiting);
  return std::nullopt;
}

std::optional<BoundaryMessage> BoundaryLog::find(const BoundaryName& name) const {
  const MutexLock lock(mutex_);
  const auto found = kept_.find(name);
  if (found == kept_.end()) return std::nullopt;
  return found->second.message;
}

void BoundaryLog::forget_waiting() {
  const MutexLock lock(mutex_);
  waiting_.clear();
}

void BoundaryLog::free_before(Commit commit) {
  const MutexLock lock(mutex_);
  forget(kept_.begin(), kept_.lower_bound(first_of(commit)));
}

void BoundaryLog::free(Commit commit) {
  const MutexLock lock(mutex_);
  forget(kept_.lower_bound(first_of(commit)), kept_.lower_bound(first_of(next(commit))));
}

void BoundaryLog::forget(KeptMap::iterator begin, KeptMap::iterator end) {
  for (auto at = begin; at != end; at = kept_.erase(at)) {
    bytes_ -= static_cast<int64_t>(at->second.message.bytes.size());
  }
}

void BoundaryLog::forget_messages() {
  const MutexLock lock(mutex_);
  forget(kept_.begin(), kept_.end());
}

void BoundaryLog::clear() {
  const MutexLock lock(mutex_);
  kept_.clear();
  waiting_.clear();
  bytes_ = 0;
}

int64_t BoundaryLog::bytes() const {
  const MutexLock lock(mutex_);
  return bytes_;
}

int64_t BoundaryLog::bytes_peak() const {
  const MutexLock lock(mutex_);
  return bytes_peak_;
}

absl::Status ReceivedBoundaries::note(const BoundaryName& name, const Fingerprint& fingerprint) {
  const MutexLock lock(mutex_);
  const auto [at, is_new] = known_.emplace(name, fingerprint);
  return is_new || at->second == fingerprint ? absl::OkStatus()
                                             : differs(name, at->second, fingerprint);
}

absl::Status ReceivedBoundaries::compare(const BoundaryName& name,
                                         const Fingerprint& fingerprint) const {
  const MutexLock lock(mutex_);
  const auto found = known_.find(name);
  return found == known_.end() || found->second == fingerprint
             ? absl::OkStatus()
             : differs(name, found->second, fingerprint);
}

std::optional<Fingerprint> ReceivedBoundaries::find(const BoundaryName& name) const {
  const MutexLock lock(mutex_);
  const auto found = known_.find(name);
  return found == known_.end() ? std::nullopt : std::optional(found->second);
}

void ReceivedBoundaries::free_before(Commit commit) {
  const MutexLock lock(mutex_);
  known_.erase(known_.begin(), known_.lower_bound(first_of(commit)));
}

void ReceivedBoundaries::free(Commit commit) {
  const MutexLock lock(mutex_);
  known_.erase(known_.lower_bound(first_of(commit)), known_.lower_bound(first_of(next(commit))));
}

void ReceivedBoundaries::clear() {
  const MutexLock lock(mutex_);
  known_.clear();
}

}  // namespace evermoe
