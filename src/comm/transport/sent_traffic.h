// How much this process has sent to each other rank so far.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "base/ids.h"
#include "base/mutex.h"

namespace evermoe {

// Threads: any.
class SentTraffic {
 public:
  struct Sent {
    int64_t messages = 0;
    int64_t bytes = 0;
    friend bool operator==(const Sent&, const Sent&) = default;
  };

  void add(Rank to, size_t bytes) {
    const MutexLock lock(mutex_);
    Sent& sent = by_rank_[to];
    ++sent.messages;
    sent.bytes += static_cast<int64_t>(bytes);
  }
  // Of all that were sent anything.
  std::map<Rank, Sent> so_far() const {
    const MutexLock lock(mutex_);
    return by_rank_;
  }

 private:
  mutable Mutex mutex_;
  std::map<Rank, Sent> by_rank_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace evermoe
