// Whether this controller's host still has the job, asked before a lost role is started anew and
// before the job is made to compute other bits.
//
// A host that stood still while its nodes went to the next one takes them for lost when it goes on.
// What it starts then would take the roles of processes that live; and were it to train with what
// is left to it, on other lanes, one job would have two ends.
//
// An answer holds until the next loss: the next host takes its term before any node goes to it, so
// who asks after such a loss hears of the newer term. Where the folder does not answer, because
// shared storage is out, roles are started all the same after a while: that is exact, if not kind.
// Pure. Threads: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "control/controller/controller_interface.h"

namespace evermoe {

class TermConfirmation {
 public:
  explicit TermConfirmation(const ControllerOptions& options)
      : is_needed_(options.hosts_may_change),
        answer_max_(options.host_answer_max),
        held_(options.takes_over ? -1 : 0) {}

  void on_loss() { ++losses_; }
  void on_held(const TermHeld& held) {
    if (held.losses == losses_) held_ = losses_;
  }
  bool is_held() const { return !is_needed_ || held_ == losses_; }
  // nullopt: it has been asked since the newest loss.
  std::optional<ConfirmTerm> ask(absl::Duration now) {
    if (std::exchange(asked_, losses_) == losses_) return std::nullopt;
    answer_due_ = now + answer_max_;
    return ConfirmTerm{losses_};
  }
  bool may_start_roles(absl::Duration now) const {
    return is_held() || (asked_ == losses_ && now >= answer_due_);
  }
  // When it may, if nothing is heard before.
  absl::Duration due() const {
    return is_held() || asked_ != losses_ ? absl::InfiniteDuration() : answer_due_;
  }

 private:
  const bool is_needed_;
  const absl::Duration answer_max_;
  int64_t losses_ = 0;  // so many are known
  int64_t asked_ = -1, held_;
  absl::Duration answer_due_;  // to the newest question
};

}  // namespace evermoe
