// Which host buffer holds which checkpoint, from the copy off the device to the commit.
//
// Three buffers let training always begin the next copy: one is being filled, one is on its way to
// storage, one is the newest durable checkpoint, from which this process can restore without
// reading. PEC section 3.2 (figure 3) as a pure transition function. Invariants, which
// triple_buffer_test.cc checks in every reachable state:
//   at most one buffer snapshotting, one ready, one persisting, one recovery;
//   their versions: recovery < persisting < ready < snapshotting;
//   a recovery buffer, once there, is there for good (its version only rises);
//   with overwriting, three buffers never keep a snapshot from beginning (two do). Without, four.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace evermoe {

enum class BufferPhase : uint8_t {
  kFree,
  kSnapshotting,  // filled from the device
  kReady,         // complete, waits for storage
  kPersisting,    // on its way to storage
  kRecovery,      // the newest checkpoint that is durable on all ranks
};

struct Buffer {
  BufferPhase phase = BufferPhase::kFree;
  int64_t version = 0;  // of the checkpoint it holds; 0 if free
  friend bool operator==(const Buffer&, const Buffer&) = default;
};

struct BufferState {
  std::vector<Buffer> buffers;
  int64_t next_version = 1;
  friend bool operator==(const BufferState&, const BufferState&) = default;
};

enum class BufferEvent : uint8_t {
  kTick,  // training would begin a snapshot now
  kSnapshotDone,
  kPersistBegin,  // storage has time
  kCommitted,     // the persisting version is durable on all ranks
  kPersistFailed,
  kRestarted,  // training went back to the last commit: whatever is newer is void
};

struct BufferOptions {
  // A tick without a free buffer takes the ready one, whose checkpoint is then never stored.
  // Otherwise such a tick is left out.
  bool overwrite_ready = true;
};

struct BufferTransition {
  BufferState state;
  bool changed = false;
  int buffer = -1;  // whose phase the event was for, if changed
  // Versions that will never be committed, ascending. Whatever was selected for them (partial
  // experts) counts as not saved.
  std::vector<int64_t> dropped;
  std::string reason;
};

// `count` free buffers.
BufferState free_buffers(int count);

// Events that do not apply (nothing to persist, say) change nothing and say so.
BufferTransition after_event(const BufferState& state, BufferEvent event,
                             const BufferOptions& options);

}  // namespace evermoe
