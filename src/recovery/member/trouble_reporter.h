// Tells the controller what failed and needs a new view. Attempts are repeated, the news is told
// once.
//
// Threads: any.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "recovery/member/member_views.h"
#include "recovery/protocol/messages.h"

namespace evermoe {

class TroubleReporter {
 public:
  TroubleReporter(Rank rank, const MemberViews& views, ControlLink& control)
      : rank_(rank), views_(views), control_(control) {}

  // A call of `view` failed between stages, or with the whole world. Nothing happens if that view
  // is over: it takes its calls with it, and that is how this member learns of it. Nor if this
  // process has ended.
  void report(View view, const absl::Status& status) { send(view, status, {}); }
  // The training thread had to leave its stage's step.
  void report_inside_stage(View view, const absl::Status& status) {
    send(view, status, {.inside_stage = true});
  }
  // No source had a usable copy of what this rank was sent back to.
  void report_copies_unusable(View view, const absl::Status& status) {
    send(view, status, {.copies_unusable = true});
  }

  // A plan has come and its view is about to open. Before that the controller does not listen, so
  // that trouble of a view that never opened is told again when it does.
  void on_opening(View view);
  // After this member has registered with a new controller: the former one may have died with the
  // news.
  void repeat();

 private:
  void send(View view, const absl::Status& status, Trouble trouble);

  const Rank rank_;
  const MemberViews& views_;
  ControlLink& control_;
  Mutex mutex_;                                            // not held while the controller is told
  View opening_ ABSL_GUARDED_BY(mutex_);                   // of the newest plan that has come
  std::optional<Trouble> newest_ ABSL_GUARDED_BY(mutex_);  // that was reported in an open view
};

}  // namespace evermoe
