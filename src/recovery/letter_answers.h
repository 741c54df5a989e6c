// Answers what other members of the job write: keeps copies of their snapshots, sends back what it keeps, and
// takes what this rank has asked for.
//
// Threads: service thread only.
#pragma once

#include "absl/status/status.h"
#include "comm/signal.h"
#include "recovery/boundary_exchange.h"
#include "recovery/letters.h"
#include "recovery/post.h"
#include "recovery/recovery_memory.h"
#include "recovery/snapshot_copies.h"
#include "recovery/window_fetch.h"

namespace evermoe {

class LetterAnswers {
 public:
  struct Dependencies {
    Rank rank;
    RecoveryMemory& memory;
    SnapshotCopies& copies;
    BoundaryExchange& exchange;
    Post& post;
    RefusedSlot& refused;
    Signal& wake_training;
    bool is_rehearsal;  // peers may ask to damage the copies held of them
  };
  explicit LetterAnswers(Dependencies dependencies) : in_(std::move(dependencies)) {}

  // A letter of `view`, which is open. Corrupt or Contradiction if it cannot be right: this process has to
  // end. NoCapacity if a copy does not fit.
  absl::Status on_letter(Letter letter, View view);

 private:
  absl::Status on_piece(Letter letter, View view);
  absl::Status on_damaged_piece(Rank from, View view, Rank owner, SlotTime time);
  absl::Status on_want_slot(const Letter& letter, View view);
  absl::Status on_acknowledged(const Letter& letter);
  absl::Status on_refused(const Letter& letter);
  absl::Status on_want_records(const Letter& letter, View view);
  absl::Status on_records(const Letter& letter);
  absl::Status on_want_boundary(const Letter& letter, View view);
  absl::Status on_boundary(const Letter& letter);
  absl::Status on_audit(const Letter& letter) const;

  const Dependencies in_;
};

}  // namespace evermoe
