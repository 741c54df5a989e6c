// Fingerprints of the state that a survivor had before it went back, which it must come to again.
//
// Threads: training thread only.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/fingerprint.h"
#include "recovery/member/restore/witnesses.h"
#include "recovery/stage_trainer.h"

namespace evermoe {

class StateBeforeRollback {
 public:
  // Trainer and witnesses outlive it. Operators are read `bytes_at_once` at a time.
  StateBeforeRollback(const StageTrainer& trainer, int64_t bytes_at_once, Witnesses& witnesses)
      : trainer_(trainer), bytes_at_once_(bytes_at_once), witnesses_(witnesses) {}

  // Notes the state at hand, unless a later one is noted: what was recomputed on the way there
  // proves nothing about the bits that the job had. REQUIRES: it is dense and at a step's end.
  void note();
  // The trainer has come to a dense state. True, and the note is forgotten, if it is the one noted;
  // false if none of this step was. Contradiction, naming an operator and both its fingerprints, if
  // it has other bits; all that differ are witnesses then.
  absl::StatusOr<bool> compare();
  void forget() { operators_.clear(), step_ = Step(-1); }

 private:
  using Fingerprints = std::pair<Fingerprint, Fingerprint>;  // full, compute-only
  Fingerprints fingerprints_of(int operator_index) const;
  // "" if it has the same bits; else what differs, for people.
  std::string difference_of(int operator_index, SnapshotKind kind, const Fingerprint& before,
                            const Fingerprint& now);
  int64_t bytes_of(int operator_index, SnapshotKind kind) const;
  Fingerprint fingerprint_of(int operator_index, SnapshotKind kind) const;

  const StageTrainer& trainer_;
  const int64_t bytes_at_once_;
  Witnesses& witnesses_;
  Step step_{-1};
  std::vector<Fingerprints> operators_;
};

}  // namespace evermoe
