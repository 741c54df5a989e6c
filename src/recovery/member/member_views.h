// Where a member's two threads meet about views: the service thread stops and opens them, the
// training thread works inside one, waits for the next, or learns that it has to go back
// (view_state.h).
//
// A stage that keeps its ranks never leaves the step it is in: its training thread waits here, deep
// inside a call, until the next view is open, and then goes on where it was.
#pragma once

#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "comm/transport/signal.h"
#include "recovery/member/view_state.h"

namespace evermoe {

class MemberViews {
 public:
  using Standing = ViewState::Standing;

  // `wake_training` is raised whenever the training thread should look again. `patience` limits
  // every single wait for a new view.
  MemberViews(Signal& wake_training, absl::Duration patience, absl::Duration ask_again)
      : wake_training_(wake_training), patience_(patience), ask_again_(ask_again) {}

  // ---- service thread

  bool stop(View view);
  void open(PlanPointer plan, bool restarts, std::optional<View> epoch = std::nullopt);

  // ---- training thread

  // The plan in force, as soon as a view later than `after` is open. Cancelled if the training
  // thread has to begin anew: it must return to where it calls next_start(). Other errors: the
  // process ends.
  absl::StatusOr<PlanPointer> pass(View after = View(0));
  // Runs `commit` unless the view has been stopped meanwhile or the training thread has to begin
  // anew. `updates`: it leads to another state, and is_updating() until set_updated().
  bool accept(View view, bool updates, const std::function<void()>& commit);
  // Waits for a plan by which this member begins (anew). Null when the job is over.
  absl::StatusOr<PlanPointer> next_start();
  // Waits for the training thread's signal; for predicates that others make true. False if none
  // came for a while: messages get lost with connections, so it is time to ask again. Once this
  // process has ended, an error as of pass().
  absl::StatusOr<bool> wait_signal();
  void set_base(Step base);
  void set_has_state(bool has_state, Step held_state, Step experts_moved);
  void set_logged_since(Step state);
  void set_updated();
  void set_taken();
  void set_finished();

  // ---- any thread

  void end(absl::Status status);
  Standing standing() const;
  bool is_updating() const;
  bool is_resuming() const;
  bool has_ended() const;
  View newest_view() const;   // stopped for or open
  View entered_view() const;  // the newest one whose plan the training thread has taken
  PlanPointer plan() const;   // the newest that was opened; null before

 private:
  Signal& wake_training_;
  const absl::Duration patience_;
  const absl::Duration ask_again_;
  mutable Mutex mutex_;
  ViewState state_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace evermoe
