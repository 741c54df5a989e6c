// Where the chunks of a rank's captures go. A capture is kept when every destination has it; what
// can be restored is what all of them have in full.
//
//   own_memory.h   this process's memory, from which a survivor goes back
//   peer_memory.h  the memory of other ranks, from which a successor is restored, and everybody
//                  where the strategy says so
//   joiner_memory.h  the memory of a process that is about to take this role, if one is
//
// Durable checkpoints are no destination of captures: the trainer writes them from its own state,
// whole and in a form that any topology can read (checkpoint/).
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "protection/schedule/capture_schedule.h"
#include "protection/snapshots/chunk.h"

namespace evermoe {

class CopyDestination {
 public:
  // How much the training thread waits.
  struct Pressure {
    bool is_urgent = false;           // a step or the optimizer waits for captures or copies
    std::vector<SlotTime> under_way;  // captures that are not read in full
  };

  virtual ~CopyDestination() = default;

  // ---- any thread

  // Whether it wants this slot.
  virtual bool takes(SlotTime time) const { return !is_of_hand_over(time); }
  // A capture of a window of so many slots begins.
  virtual void begin_window(Step window, int slots) = 0;
  // The last chunk of the slot is about to be added.
  virtual void on_captured(SlotTime time) = 0;
  // These slots are in this process's memory, and in that of `sources`, without a capture.
  virtual void adopt(const std::vector<SlotTime>& times, int slots,
                     const std::vector<Rank>& sources) = 0;
  // This slot is damaged here and nobody can be given it: as if it had not been captured.
  virtual void give_up(SlotTime time) = 0;
  // Everything captured is there.
  virtual bool is_settled() const = 0;
  // First state of the newest window that is there in full; -1. What is adopted counts.
  virtual Step complete_window() const = 0;
  // How many chunks have gone there by a way of its own.
  virtual int64_t taken() const { return 0; }
  // A step has waited in silence for what is captured.
  virtual void on_silence() = 0;
  virtual void forget_before(Step window) = 0;
  // Windows that begin after `complete` and before `end` are given up.
  virtual void forget_between(Step complete, Step end) = 0;
  virtual void clear() = 0;

  // ---- service thread

  virtual absl::Status add(const Chunk& chunk) = 0;
  // The training thread is about to be sent back: what waits to go out does not.
  virtual void suspend() = 0;
  // Does what there is to do, for about one chunk.
  virtual void work(const Pressure& pressure) = 0;
  // Captures may go on: what they add does not pile up, or, where they are urgent, is kept anyway.
  virtual bool has_room(bool is_urgent) const = 0;
  // How long until work() is to be called again at the latest.
  virtual absl::Duration pause(const Pressure& pressure) = 0;
};

}  // namespace evermoe
