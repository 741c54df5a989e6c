// Fingerprints of the state that a survivor had before it went back, which it must come to again.
//
// Threads: training thread only.
#pragma once

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/fingerprint.h"
#include "recovery/stage_trainer.h"

namespace evermoe {

class StateBeforeRollback {
 public:
  // The trainer outlives it. Operators are read `bytes_at_once` at a time.
  StateBeforeRollback(const StageTrainer& trainer, int64_t bytes_at_once)
      : trainer_(trainer), bytes_at_once_(bytes_at_once) {}

  // Notes the state at hand. REQUIRES: it is dense and at a step's end.
  void note();
  // The trainer has come to a dense state. True, and the note is forgotten, if it is the one noted;
  // false if none of this step was. Contradiction, naming the operator, if it has other bits.
  absl::StatusOr<bool> compare();
  void forget() { operators_.clear(), step_ = Step(-1); }

 private:
  using Fingerprints = std::pair<Fingerprint, Fingerprint>;  // full, compute-only
  Fingerprints fingerprints_of(int operator_index) const;
  Fingerprint fingerprint_of(int operator_index, SnapshotKind kind, int64_t size) const;

  const StageTrainer& trainer_;
  const int64_t bytes_at_once_;
  Step step_{-1};
  std::vector<Fingerprints> operators_;
};

}  // namespace evermoe
