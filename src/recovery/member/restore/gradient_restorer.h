// How a rank comes to the newest state without running a step again, where the gradients of every
// step are kept (protection.strategy = "gradients", after GoCkpt and Checkmate): it has its state,
// or takes a full snapshot, and makes the updates that it lacks with the gradients that were
// captured and the records of the steps.
//
//   begin(plan, has_state)               at its state, or at the plan's window
//   update(), ...                        until is_behind() is false
//   complete()                           together with the other lanes of the stage
//
// Updates are element by element, so each rank makes those of its shards alone; only complete()
// needs the others.
//
// Threads: training thread only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recovery/member/restore/window_fetch.h"
#include "recovery/member/serve/snapshot_copies.h"
#include "recovery/member/train/commit_agreement.h"
#include "recovery/member/train/window_state.h"
#include "recovery/plan/recovery_memory.h"

namespace evermoe {

class GradientRestorer {
 public:
  struct Dependencies {
    Rank rank;
    StageTrainer& trainer;
    CommitAgreement& commits;
    RecoveryMemory& memory;
    SnapshotCopies& copies;
    WindowState& window;
    WindowFetch& fetch;
  };
  explicit GradientRestorer(Dependencies dependencies) : in_(std::move(dependencies)) {}

  // By a plan in which this rank's stage begins anew, whose records are here. `has_state`: the
  // trainer's is whole and at the end of a step. Returns for people where what was lacking came
  // from. Cancelled if the member has to begin anew again.
  absl::StatusOr<std::vector<std::string>> begin(const Plan& plan, bool has_state);
  // It is at the newest state already.
  void begin_at(Step state) { goal_ = state; }
  void forget() { goal_.reset(); }
  // The state at hand is older than the newest one.
  bool is_behind() const { return goal_ && in_.trainer.step() < *goal_; }
  // The step from the state at hand, without running it. Contradiction if its gradients were
  // captured at another position. REQUIRES: is_behind().
  absl::StatusOr<Record> update();
  // At the newest state: the weights that the layers compute with. Collective inside the stage,
  // once for every begin(); nothing otherwise.
  absl::Status complete();

 private:
  // What brings it from `from` to the plan's state, oldest first.
  std::vector<SlotTime> gradients_between(Step from, Step to) const;

  const Dependencies in_;
  std::optional<Step> goal_;
};

}  // namespace evermoe
