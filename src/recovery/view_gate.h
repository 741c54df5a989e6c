// Where a member's two threads meet about views: the service thread stops and opens them, the training
// thread works inside one, waits for the next, or learns that it has to go back.
//
// A stage that keeps its ranks never leaves the step it is in: its training thread waits here, deep
// inside a call, until the next view is open, and then goes on where it was.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/signal.h"
#include "recovery/messages.h"

namespace evermoe {

class ViewGate {
 public:
  // `wake_training` is raised whenever the training thread should look again. `patience` limits every
  // single wait for a new view.
  ViewGate(Signal& wake_training, absl::Duration patience, absl::Duration ask_again)
      : wake_training_(wake_training), patience_(patience), ask_again_(ask_again) {}

  // ---- service thread

  // From now on nothing is accepted in views before `view`. False if it is not newer than the present one.
  bool stop(View view);
  // Opens plan->view, which was stopped for before. `restarts`: the training thread has to begin anew.
  void open(std::shared_ptr<const Plan> plan, bool restarts);
  // The training thread's work is over: with success, or because this process has to end.
  void end(absl::Status status);

  // ---- training thread

  // The plan in force, as soon as a view later than `after` is open. Cancelled if the training thread
  // has to begin anew: it must return to where it calls next_start(). Other errors: the process ends.
  absl::StatusOr<std::shared_ptr<const Plan>> pass(View after = View(0));
  // Runs `commit` unless the view has been stopped meanwhile or the training thread has to begin anew.
  bool accept(View view, const std::function<void()>& commit);
  // Waits for a plan by which this member begins (anew). Cancelled when the job is over.
  absl::StatusOr<std::shared_ptr<const Plan>> next_start();
  // Waits for the training thread's signal; for predicates that others make true. False if none came
  // for a while: letters get lost with connections, so it is time to ask again.
  absl::StatusOr<bool> wait_signal();

  // The state at which the run began, once resume() has come to its end.
  void set_base(Step base);
  // The work is done; the training thread waits for a release or a plan that sends it back.
  void set_finished();

  // ---- any thread

  // What a report says of the training thread, at one moment.
  struct Standing {
    View stage_epoch;        // of the plan by which it began; 0: never
    Step base{-1};
    bool is_finished = false;
    bool is_broken = false;  // it has left its work and waits for a plan that lets it begin anew
  };
  Standing standing() const;
  bool has_ended() const;
  View newest_view() const;       // stopped for or open
  View entered_view() const;      // the newest one whose plan the training thread has taken
  std::shared_ptr<const Plan> plan() const;  // the newest that was opened; null before

 private:
  Signal& wake_training_;
  const absl::Duration patience_;
  const absl::Duration ask_again_;
  mutable std::mutex mutex_;
  View view_;
  bool is_open_ = false;
  bool must_restart_ = false;
  bool is_at_start_ = true;
  bool is_finished_ = false;
  View stage_epoch_;
  View entered_;
  Step base_{-1};
  bool has_ended_ = false;
  absl::Status end_;
  std::shared_ptr<const Plan> plan_;
};

}  // namespace evermoe
