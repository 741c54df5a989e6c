// The captures of a rank that are under way, and which of their chunks can be read now: at most a
// snapshot and, behind it, the gradients of the step that it overlaps. Gradients can be read
// operator by operator, as soon as they are reduced. A chunk is being read from on_begun() to
// on_read(); several may be at a time.
//
// Pure. Threads: one at a time, the owner sees to that.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "protection/schedule/capture_schedule.h"
#include "protection/snapshots/chunk.h"
#include "recovery/protocol/findings.h"
#include "recovery/stage_trainer.h"

namespace evermoe {

class CaptureQueue {
 public:
  struct Capture {
    SlotTime time;
    int slots = 1;  // of the window
    RecordBytes position;
    std::vector<ChunkRange> chunks;
    bool waits_for_gradients = false;  // an operator is read once set_ready() was called for it
    WrittenState written;              // what is captured; of gradients set_ready() says it
  };

  // REQUIRES: `capture` has chunks; the one before waits for no gradients.
  void begin(Capture capture);
  bool waits_for_gradients() const;
  // The gradients of this operator are reduced. Does nothing if no capture waits for them.
  void set_ready(int operator_index, WrittenState written);
  void clear() { captures_.clear(); }

  bool empty() const { return captures_.empty(); }
  // A chunk of the operator is still to be read, or being read.
  bool is_reading(int operator_index) const;
  // The first chunk that can be read now and has not been begun; nullopt if there is none. Of
  // `owner`.
  std::optional<ChunkHeader> next(Rank owner) const;
  // Of the capture that the chunk is of. REQUIRES: that is under way.
  const RecordBytes& position_of(const ChunkHeader& chunk) const;
  WrittenState written(const ChunkHeader& chunk) const;
  void on_begun(const ChunkHeader& chunk);
  // It was read. True if that was the last one of its capture. REQUIRES: its capture is under way.
  bool on_read(const ChunkHeader& chunk);
  std::vector<SlotTime> under_way() const;

 private:
  struct UnderWay {
    Capture capture;
    std::vector<int32_t> left = {};          // numbers of the chunks that are still to be begun
    std::vector<int32_t> begun = {};         // and of those that are being read
    std::map<int, WrittenState> ready = {};  // operators, if it waits for gradients
    bool can_read(const ChunkRange& chunk) const;
    bool reads(const std::vector<int32_t>& chunks, int operator_index) const;
  };
  std::deque<UnderWay>::iterator find(const ChunkHeader& chunk);

  std::deque<UnderWay> captures_;
};

}  // namespace evermoe
