// Takes a rank's snapshots while it trains, and gives them to the destinations of its strategy.
//
// The training thread says what to capture and goes on; the service thread reads operator after
// operator, chunk by chunk at a limited pace, and adds each chunk to every destination. Where state
// is on a device, it comes from there beside the training and while chunks before are added.
// The optimizer waits, per operator, for a capture that still reads it, and the step after a
// capture is not committed before its copies have arrived: a window is complete one step after its
// last slot at the latest, which bounds the work of a recovery (at most twice the window). Where
// gradients are kept, a step is not committed before its own have arrived either. Where copies go
// out in the gaps of the training's messages, the step before the next window waits for them.
//
// Threads: as said at each method.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "env/clock.h"
#include "protection/snapshots/snapshot_store.h"
#include "recovery/member/member_views.h"
#include "recovery/member/serve/capture_queue.h"
#include "recovery/member/serve/copy_destination.h"
#include "recovery/protocol/message_sender.h"
#include "recovery/stage_trainer.h"

namespace evermoe {

struct SnapshotCopiesOptions {
  int64_t chunk_bytes_max = Chunk::kBytesMax;
  // Pace of captures that are read by the service thread, unless a step waits, as it will for its
  // gradients.
  double bytes_per_second = 1 << 30;
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
    std::vector<CopyDestination*> destinations;
  };
  SnapshotCopies(Dependencies dependencies, SnapshotCopiesOptions options);

  // ---- training thread

  // The state of `time` is what the trainer holds now, at `position`. Cancelled if the member has
  // to go back.
  absl::Status capture(SlotTime time, RecordBytes position);
  // For a joiner (joiner_memory.h): the state that the trainer holds now, all operators in full.
  // What is captured already goes first.
  absl::Status capture_whole(Step state, RecordBytes position);
  // Likewise: the position alone, as `time`.
  absl::Status capture_position(SlotTime time, RecordBytes position);
  // The step from `position` begins, whose gradients are to be kept as those of `time`: they are
  // captured and sent operator by operator, as they are reduced. Cancelled likewise.
  absl::Status begin_gradients(SlotTime time, RecordBytes position);
  void on_reduced(int operator_index);
  // Returns when no capture still has to read the operator.
  absl::Status wait_read(int operator_index);
  // Returns when everything that is to be captured so far has been read. Cancelled if the member
  // has to go back.
  absl::Status wait_captured();
  // Returns when everything captured so far is at its destinations. Cancelled likewise.
  absl::Status wait_settled();
  // Returns when everything is captured and `is_done`, or it is not wanted any more. Cancelled
  // likewise.
  absl::Status wait_until(const std::function<bool()>& is_done,
                          const std::function<bool()>& is_wanted);
  // Drops the captures under way: the state they would read is about to go.
  void abandon();
  // These snapshots of this rank have been put into the store from the copies of `sources`: they
  // are as good as captured, and these need not be sent them again.
  void adopt(const std::vector<SlotTime>& times, const std::vector<Rank>& sources);
  // The same of what a process had before it took this role; nobody is known to have it.
  void adopt_held(const std::vector<HeldSlot>& held);
  // First state of the newest window that all destinations have; -1.
  Step complete_window() const;

  // ---- service thread

  // The training thread is about to be sent back: nothing of what it still runs is captured or
  // sent. Until abandon().
  void suspend();
  // Does what there is to do, for about one chunk. Returns when to be called again at the latest.
  absl::Duration work();
  // A destination has come to have more.
  void on_arrived() { in_.wake_training.raise(); }
  // This slot was damaged here: nobody waits for its copies any more.
  void give_up(SlotTime time);
  void forget_before(Step window);
  // Windows that begin after `complete` and before `end` will not be complete.
  void forget_between(Step complete, Step end);
  void clear();

  // Seconds the training thread has waited for captures and for copies.
  double seconds_waited_for_reads() const;
  double seconds_waited_for_copies() const;
  int64_t captured_bytes() const;  // so far
  absl::Status status() const;     // of capturing: NoCapacity when the store is full

 private:
  absl::Status begin(CaptureQueue::Capture capture);
  std::vector<OperatorBytes> operator_bytes() const;
  // Until it may be read.
  absl::Duration pause_before(const ChunkHeader& chunk) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The chunk that the trainer is to be asked for now, if any.
  std::optional<ChunkHeader> next_chunk();
  // Reads one chunk; many while the optimizer waits, or where they come without this thread.
  void read_chunks();
  // Begins to read chunks until one is there, or so many are under way.
  void begin_chunks();
  void begin_chunk(const ChunkHeader& header);
  void finish_oldest();
  // Of one chunk that is read, if there is one.
  void add_chunk();
  // What has not been added is of no use any more.
  void drop_reading();
  void drop_if_abandoned();
  CopyDestination::Pressure pressure() const;
  bool have_room() const;  // all destinations
  bool is_write_waiting() const;
  bool are_settled() const;
  int64_t chunks_taken() const;
  // While chunks go out, however slowly, nothing stands still: so many were `taken` before.
  void tell_if_moving(int64_t& taken);

  const Dependencies in_;
  const SnapshotCopiesOptions options_;
  // Not held while the trainer is called; taken before those of destinations.
  mutable Mutex mutex_;
  CaptureQueue captures_ ABSL_GUARDED_BY(mutex_);
  int under_way_ ABSL_GUARDED_BY(mutex_) = 0;              // chunks, from begun to added
  bool is_abandoned_ ABSL_GUARDED_BY(mutex_) = false;      // these, and what is to be captured
  bool is_urgent_ ABSL_GUARDED_BY(mutex_) = false;         // the training thread waits for captures
  bool is_write_waiting_ ABSL_GUARDED_BY(mutex_) = false;  // the optimizer does
  bool is_awaited_ ABSL_GUARDED_BY(mutex_) = false;        // a step waits for copies
  bool is_suspended_ ABSL_GUARDED_BY(mutex_) = false;
  double read_wait_ ABSL_GUARDED_BY(mutex_) = 0, copy_wait_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t captured_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  // Service thread only:
  struct Reading {
    Chunk chunk;
    std::unique_ptr<CopyUnderWay> copy;  // null: read
  };
  std::deque<Reading> reading_;
  struct Read {
    Chunk chunk;
    bool is_last = false;  // of its capture
  };
  std::deque<Read> read_;     // to be added
  bool reads_ahead_ = false;  // chunks come without this thread
  absl::Duration next_capture_ = absl::ZeroDuration();
};

}  // namespace evermoe
