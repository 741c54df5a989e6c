// Whether this controller's host still has the job, asked before a lost role is started anew and
// before the job is made to compute other bits.
//
// A host that stood still while its nodes went to the next one takes them for lost when it goes on.
// What it starts then would take the roles of processes that live; and were it to train with what
// is left to it, on other lanes, one job would have two ends.
//
// An answer holds until the next loss: the next host takes its term before any node goes to it, so
// who asks after such a loss hears of the newer term. Pure. Threads: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "control/controller/controller_interface.h"

namespace evermoe {

class TermConfirmation {
 public:
  explicit TermConfirmation(const ControllerOptions& options)
      : is_needed_(options.hosts_may_change), held_(options.takes_over ? -1 : 0) {}

  void on_loss() { ++losses_; }
  void on_held(const TermHeld& held) {
    if (held.losses == losses_) held_ = losses_;
  }
  bool is_held() const { return !is_needed_ || held_ == losses_; }
  // nullopt: it has been asked since the newest loss.
  std::optional<ConfirmTerm> ask() {
    if (std::exchange(asked_, losses_) == losses_) return std::nullopt;
    return ConfirmTerm{losses_};
  }

 private:
  const bool is_needed_;
  int64_t losses_ = 0;  // so many are known
  int64_t asked_ = -1, held_;
};

}  // namespace evermoe
