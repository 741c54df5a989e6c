// Takes a rank's snapshots while it trains, keeps their copies at peers, and knows what is
// complete.
//
// The training thread says what to capture and goes on; the service thread reads operator after
// operator, chunk by chunk at a limited pace, stores each chunk and sends it to the rank's holders.
// The optimizer waits, per operator, for a capture that still reads it, and the step after a
// capture is not committed before its copies have arrived: a window is complete one step after its
// last slot at the latest, which bounds the work of a recovery (at most twice the window). Where
// gradients are kept, a step is not committed before its own have arrived either.
//
// Threads: as said at each method.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "env/clock.h"
#include "protection/snapshots/snapshot_store.h"
#include "recovery/member/member_views.h"
#include "recovery/member/serve/copy_ledger.h"
#include "recovery/protocol/message_sender.h"
#include "recovery/stage_trainer.h"

namespace evermoe {

struct SnapshotCopiesOptions {
  int64_t chunk_bytes_max = Chunk::kBytesMax;
  double bytes_per_second = 1 << 30;  // pace of captures, unless the optimizer waits
  int chunks_in_flight_max = 8;
};

class SnapshotCopies {
 public:
  struct Dependencies {
    Rank rank;
    const StageTrainer& trainer;
    const CaptureSchedule& schedule;
    SnapshotStore& store;
    MessageSender& sender;
    MemberViews& views;
    ControlLink& control;
    Signal& wake_training;
    Clock& clock;
  };
  SnapshotCopies(Dependencies dependencies, SnapshotCopiesOptions options);

  // ---- training thread

  // The state of `time` is what the trainer holds now, at `position`; or the gradients of the step
  // from there. Cancelled if the member has to go back.
  absl::Status capture(SlotTime time, RecordBytes position);
  // Returns when no capture still has to read the operator; at most one capture is ever under way.
  absl::Status wait_read(int operator_index);
  // Returns when everything captured so far is at its holders. Cancelled if the member has to go
  // back.
  absl::Status wait_settled();
  // Drops the capture under way: the state it would read is about to go.
  void abandon();
  // These snapshots of this rank have been put into the store from the copies of `sources`: they
  // are as good as captured, and these need not be sent them again.
  void adopt(const std::vector<SlotTime>& times, const std::vector<Rank>& sources);
  // First state of the newest window that is captured in full and acknowledged by all holders; -1.
  Step complete_window() const;

  // ---- service thread

  // The training thread is about to be sent back: nothing of what it still runs is captured or
  // sent. Until abandon().
  void suspend();
  // Does what there is to do, for about one chunk. Returns when to be called again at the latest.
  absl::Duration work();
  // A new view: who keeps this rank's copies now. They are offered what they have not acknowledged.
  void set_holders(View view, const std::vector<Rank>& holders,
                   const std::vector<PeerAddress>& table);
  void on_acknowledged(Rank holder, SlotTime time);
  // A holder lacks these of what it was offered. They go out at the pace of captures' chunks, so
  // that what others wait for does not queue behind them.
  void send_wanted(Rank holder, SlotTime time, std::vector<Chunk> chunks);
  void forget_before(Step window);
  void clear();

  // Seconds the training thread has waited for captures and for copies.
  double seconds_waited_for_reads() const;
  double seconds_waited_for_copies() const;
  int64_t captured_bytes() const;  // so far
  absl::Status status() const;     // of capturing: NoCapacity when the store is full

 private:
  struct Capture {
    SlotTime time;
    int slots = 1;
    RecordBytes position;
    std::vector<ChunkRange> chunks;
    size_t next = 0;
  };
  struct Outgoing {
    Rank holder;
    SlotTime time;
    Chunk chunk;
  };

  // What holders have not acknowledged is offered to them: they say what they lack.
  enum class Offer {
    kNothing,
    kWhenSent,  // once everything that was captured has been sent
    kNow,
  };

  bool is_reading(int operator_index) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The chunk that the trainer is to be asked for now, if any.
  std::optional<ChunkHeader> next_chunk();
  // Of the chunk that has just been read.
  void on_read(const ChunkHeader& header);
  void capture_chunk();
  bool send_chunk();
  void offer_missing();
  // While chunks go out, however slowly, nothing stands still: so many were `taken` before.
  void tell_if_moving(int64_t& taken);

  const Dependencies in_;
  const SnapshotCopiesOptions options_;
  mutable Mutex mutex_;  // not held while trainer or transport are called
  std::optional<Capture> capture_ ABSL_GUARDED_BY(mutex_);
  // The service thread is inside the trainer's capture().
  bool reads_now_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_urgent_ ABSL_GUARDED_BY(mutex_) = false;  // the optimizer waits
  Offer offer_ ABSL_GUARDED_BY(mutex_) = Offer::kNothing;
  bool is_suspended_ ABSL_GUARDED_BY(mutex_) = false;
  CopyLedger ledger_ ABSL_GUARDED_BY(mutex_);
  View view_ ABSL_GUARDED_BY(mutex_);
  double read_wait_ ABSL_GUARDED_BY(mutex_) = 0, copy_wait_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t captured_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  // Service thread only:
  std::deque<Outgoing> outgoing_;
  absl::Duration next_capture_ = absl::ZeroDuration();
};

}  // namespace evermoe
