// What a rank has sent across the boundaries of its stage, kept by the sender (MoEtion section 3.3,
// "upstream logging"): a stage that has to run steps again takes its inputs from its neighbours'
// logs instead of making the neighbours run again.
//
// The log is also how a message finds a receiver that asks for it: a request for something that has
// not been produced yet waits here and is answered when it is put. So a receiver need not know
// whether its neighbour is ahead of it, waits, or runs the same steps again itself.
//
// Threads: any.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fingerprint.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "protection/logs/commit.h"

namespace evermoe {

enum class BoundaryDirection : uint8_t { kActivation, kGradient };

// Which message: unique among all that two ranks ever exchange.
struct BoundaryName {
  Commit commit;  // the one that the work under way leads to
  BoundaryDirection direction = BoundaryDirection::kActivation;
  MicroBatch micro_batch;
  friend auto operator<=>(const BoundaryName&, const BoundaryName&) = default;
};

std::string to_string(const BoundaryName& name);

// Bytes that somebody keeps alive, so that logging a tensor copies nothing.
struct BoundaryMessage {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

class BoundaryLog {
 public:
  // `bytes_max` limits what is kept; a put beyond it fails.
  explicit BoundaryLog(int64_t bytes_max) : bytes_max_(bytes_max) {}

  // A request that waits for a message: whom to answer.
  struct Waiting {
    Rank rank;
    friend auto operator<=>(const Waiting&, const Waiting&) = default;
  };

  // Keeps a message and returns the requests that waited for it. A name that is there already has
  // been computed again: Contradiction, naming it, unless the bytes are the same. NoCapacity beyond
  // the limit.
  absl::StatusOr<std::vector<Waiting>> put(const BoundaryName& name, BoundaryMessage message);

  // The message, or nullopt, and then `waiting` will be returned by the put() that brings it.
  std::optional<BoundaryMessage> find_or_wait(const BoundaryName& name, Waiting waiting);
  std::optional<BoundaryMessage> find(const BoundaryName& name) const;

  // Forgets the requests that wait: their view is over, and whoever still wants something asks
  // again.
  void forget_waiting();
  // Forgets messages of commits before `commit`: nobody will run that work again.
  void free_before(Commit commit);
  // Forgets the messages of this commit alone.
  void free(Commit commit);
  // Forgets all messages; requests go on waiting for them.
  void forget_messages();
  void clear();

  int64_t bytes() const;
  int64_t bytes_peak() const;

 private:
  struct Kept {
    BoundaryMessage message;
    Fingerprint fingerprint;
  };
  using KeptMap = std::map<BoundaryName, Kept>;
  void forget(KeptMap::iterator begin, KeptMap::iterator end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t bytes_max_;
  mutable Mutex mutex_;
  KeptMap kept_ ABSL_GUARDED_BY(mutex_);
  std::map<BoundaryName, std::vector<Waiting>> waiting_ ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t bytes_peak_ ABSL_GUARDED_BY(mutex_) = 0;
};

// What a rank has received across its boundaries, as fingerprints: a neighbour that computes a
// message again must come to the same bytes.
//
// Threads: any.
class ReceivedBoundaries {
 public:
  // Remembers or compares: Contradiction, naming the message, if another fingerprint is known.
  absl::Status note(const BoundaryName& name, const Fingerprint& fingerprint);
  // Contradiction if another fingerprint is known; ok if none is.
  absl::Status compare(const BoundaryName& name, const Fingerprint& fingerprint) const;
  std::optional<Fingerprint> find(const BoundaryName& name) const;
  void free_before(Commit commit);
  void free(Commit commit);
  void clear();

 private:
  mutable Mutex mutex_;
  std::map<BoundaryName, Fingerprint> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace evermoe
