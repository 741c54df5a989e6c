// The controller that an agent follows: the newest one that it has met, and how long it may be
// silent before it is taken for gone. Pure.
//
// The next host of the job has a newer term (checkpoint/write/folder_term.h); under one term every
// controller has a larger life than those before it.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <optional>

#include "control/controller/stalls/lateness.h"
#include "control/wire/control_messages.h"

namespace evermoe {

class FollowedController {
 public:
  FollowedController(absl::Duration silence_max, absl::Duration own_standstill, absl::Duration now);

  // Than one that it has met: the agent does not listen to it.
  bool is_older(const Welcome& welcome) const;
  // Of another job than the one met before, which is over.
  bool is_of_another_job(const Welcome& welcome) const;
  void meet(const Welcome& welcome);
  const FolderTerm& term() const { return term_; }
  // To a worker. REQUIRES: it has met one
  Welcome welcome() const { return {*life_, term_, {}}; }

  // It gives a sign of life, or is called.
  void on_sign(absl::Duration now) { heard_ = now; }
  // What its timer was late, as it says, and what the agent's own was: where timers are late signs
  // of life may be, too.
  void on_lateness(absl::Duration now, absl::Duration late) { lateness_.note(now, late); }
  void on_own_lateness(absl::Duration now, absl::Duration late) { own_lateness_.note(now, late); }
  // When it is taken for gone, as things are now.
  absl::Duration gone_at(absl::Duration now) const;

 private:
  const absl::Duration silence_max_;
  std::optional<int64_t> life_;
  FolderTerm term_;
  absl::Duration heard_;
  Lateness own_lateness_;
  Lateness lateness_;
};

}  // namespace evermoe
