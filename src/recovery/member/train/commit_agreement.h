// How a rank comes to the record of a commit: it knows it already, gets it from a rank that does,
// or agrees on it with the whole world. A view that ends meanwhile is no error: it goes on in the
// next one.
//
// With what the trainer found go three votes: the newest window that is complete here, the slots
// that this rank would like from a new window on, and the most that it has memory for. So windows
// are freed and change at the same commit everywhere, without messages of their own.
//
// Threads: training thread only.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/communicator.h"
#include "protection/logs/record_log.h"
#include "recovery/member/member_views.h"
#include "recovery/member/trouble_reporter.h"
#include "recovery/protocol/findings.h"
#include "recovery/protocol/message_sender.h"
#include "recovery/stage_trainer.h"

namespace evermoe {

struct WindowVote {
  Step complete_window{-1};  // newest one that this rank and its holders have; -1: none
  int wanted_slots = 0;      // of windows to come; 0: it does not mind
  int slots_max = 1;
};

class CommitAgreement {
 public:
  struct Dependencies {
    Transport& transport;
    int world_size;
    MessageSender& sender;
    MemberViews& views;
    RecordLog& records;
    TroubleReporter& troubles;
    // Before a vote on a step: returns when what has to be at this rank's holders is there, in the
    // present view.
    std::function<absl::Status()> settle;
    // What this rank votes; `ends_window`: a window begins at the state that the commit leads to.
    std::function<WindowVote(bool ends_window)> vote;
    // Whether operators may come to other lanes at this state, beside what a plan says of lanes.
    std::function<bool(Step state)> may_move_experts = [](Step) { return false; };
    // A record has been made in this view. Called on the training thread.
    std::function<void(View, Commit, const Record&)> on_agreed;
    absl::Duration deadline;
  };
  enum class Kind { kStep, kOther };

  explicit CommitAgreement(Dependencies dependencies);

  // The record of `commit`, to which this rank has found `own`. Cancelled if the member has to go
  // back.
  absl::StatusOr<Record> agree(Commit commit, Kind kind, const Findings& own);
  // Gets the records from `first` to `last`, which another rank has. Returns without them if that
  // rank is lost before it gave them away, and nobody else has `last`. Cancelled likewise.
  absl::Status fetch(Commit first, Commit last);
  // REQUIRES: the record is known.
  absl::StatusOr<Record> record_of(Commit commit) const;
  // The job has made this commit already.
  bool is_known(Commit commit) const { return in_.records.newest() >= commit; }

  // The world in `view`, for a run that begins: everybody calls the same there.
  Communicator& world_in(View view);
  // The first rule of a run from `base`: the fewest slots that any rank asks for. In world_in()'s
  // view.
  absl::StatusOr<WindowRule> first_rule(Step base, int slots, int period);

 private:
  absl::Status reduce(View view, Findings& findings);

  const Dependencies in_;
  Communicator world_;
};

}  // namespace evermoe
