// What people are told of a worker: a message of the control plane from the worker through its
// agent and the controller to the run. Nothing is decided by it, but for the reason that a failed
// worker gives.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/ids.h"
#include "experts/migration/expert_balance.h"
#include "parallel/trained_lanes.h"
#include "recovery/plan/protection_state.h"

namespace evermoe {

struct WorkerReport {
  enum class Kind : uint8_t {
    kReady,        // connected and restored; `step` is where training goes on, `text` where from
    kStep,         // a step was committed (rank 0 only)
    kEvaluated,    // validation loss of the state at `step` (rank 0 only)
    kPublished,    // the checkpoint of `step` is complete on disk (rank 0 only)
    kFinished,     // everything is done or drained; exits 0 next
    kFailed,       // exits non-zero next; `text` says why, `accused` whom it blames
    kSaveFailed,   // the disk refuses the checkpoint of `step`; `text` says why. Training goes on
    kExpertsMoved  // at the state of `step` (rank 0 only)
  };
  Kind kind = Kind::kReady;
  Rank rank;
  Step step;
  std::string text;
  std::optional<Rank> accused;
  // kFailed; with either one a restart cannot help.
  bool bad_input = false;  // the user's input is wrong
  // The input is fine, but what it asks for fails: it diverges, or recomputed bits differ.
  bool is_hopeless = false;
  bool is_doubted = false;  // kFailed: what its machine has computed may be wrong
  // kStep
  double loss = 0;
  double gradient_norm = 0;
  double learning_rate = 0;
  double load_imbalance = 0;                  // mean over gates of largest / mean expert load
  double tokens_per_second = 0;               // since the step before
  double lost_token_share = 0;                // of the run so far; 0 with exact strategies
  std::optional<ProtectionState> protection;  // of a protected job
  double validation_loss = -1;                // kEvaluated
  double validation_accuracy = 0;             // kEvaluated
  bool drained = false;            // kFinished: before the last step, because it was asked to
  std::optional<ExpertMove> move;  // kExpertsMoved
  TrainedOn trained_on;            // kReady: up to that state
};

}  // namespace evermoe
