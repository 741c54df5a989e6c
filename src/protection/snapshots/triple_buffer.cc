#include "protection/snapshots/triple_buffer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace evermoe {
namespace {

class Transition {
 public:
  explicit Transition(const BufferState& state) { result_.state = state; }

  BufferTransition tick(const BufferOptions& options) {
    if (find(BufferPhase::kSnapshotting) >= 0) return nothing("a snapshot is still being copied");
    int target = find(BufferPhase::kFree);
    if (target < 0 && options.overwrite_ready) target = find(BufferPhase::kReady);
    if (target < 0) return nothing("no buffer is free");
    drop(target);
    at(target).version = result_.state.next_version++;
    return moved(target, BufferPhase::kSnapshotting, "begins a snapshot");
  }

  BufferTransition snapshot_done() {
    const int done = find(BufferPhase::kSnapshotting);
    if (done < 0) return nothing("no snapshot is being copied");
    drop(find(BufferPhase::kReady));
    return moved(done, BufferPhase::kReady, "is complete");
  }

  BufferTransition persist_begin() {
    if (find(BufferPhase::kPersisting) >= 0) return nothing("storage still has the one before");
    const int ready = find(BufferPhase::kReady);
    if (ready < 0) return nothing("nothing is ready");
    return moved(ready, BufferPhase::kPersisting, "goes to storage");
  }

  BufferTransition committed() {
    const int durable = find(BufferPhase::kPersisting);
    if (durable < 0) return nothing("nothing is on its way to storage");
    const int before = find(BufferPhase::kRecovery);
    if (before >= 0) at(before) = {};
    return moved(durable, BufferPhase::kRecovery, "is durable on all ranks");
  }

  BufferTransition persist_failed() {
    const int failed = find(BufferPhase::kPersisting);
    if (failed < 0) return nothing("nothing is on its way to storage");
    drop(failed);
    return moved(failed, BufferPhase::kFree, "was not stored");
  }

  BufferTransition restarted() {
    for (size_t i = 0; i < result_.state.buffers.size(); ++i) {
      if (at(static_cast<int>(i)).phase == BufferPhase::kRecovery) continue;
      drop(static_cast<int>(i));
    }
    std::sort(result_.dropped.begin(), result_.dropped.end());
    result_.changed = !result_.dropped.empty();
    result_.reason = absl::StrCat("restart drops ", result_.dropped.size(), " snapshots");
    return std::move(result_);
  }

 private:
  Buffer& at(int index) { return result_.state.buffers[index]; }

  // The first buffer in `phase`, -1 without one.
  int find(BufferPhase phase) const {
    const auto& buffers = result_.state.buffers;
    const auto found = std::ranges::find(buffers, phase, &Buffer::phase);
    return found == buffers.end() ? -1 : static_cast<int>(found - buffers.begin());
  }

  // Frees a buffer; a version in it is lost.
  void drop(int index) {
    if (index < 0) return;
    if (at(index).phase != BufferPhase::kFree) result_.dropped.push_back(at(index).version);
    at(index) = {};
  }

  BufferTransition nothing(std::string reason) {
    result_.reason = std::move(reason);
    return std::move(result_);
  }

  BufferTransition moved(int index, BufferPhase phase, const char* what) {
    at(index).phase = phase;
    result_.changed = true;
    result_.buffer = index;
    result_.reason = absl::StrCat("buffer ", index, " (version ", at(index).version, ") ", what);
    if (!result_.dropped.empty())
      absl::StrAppend(&result_.reason, ", version ", result_.dropped[0], " is dropped");
    return std::move(result_);
  }

  BufferTransition result_;
};

}  // namespace

BufferState free_buffers(int count) {
  CHECK(count >= 1) << count << " buffers";
  return {.buffers = std::vector<Buffer>(count)};
}

BufferTransition after_event(const BufferState& state, BufferEvent event,
                             const BufferOptions& options) {
  Transition transition(state);
  switch (event) {
    case BufferEvent::kTick: return transition.tick(options);
    case BufferEvent::kSnapshotDone: return transition.snapshot_done();
    case BufferEvent::kPersistBegin: return transition.persist_begin();
    case BufferEvent::kCommitted: return transition.committed();
    case BufferEvent::kPersistFailed: return transition.persist_failed();
    case BufferEvent::kRestarted: return transition.restarted();
  }
  CHECK(false) << "event " << static_cast<int>(event);
  return {};
}

}  // namespace evermoe
