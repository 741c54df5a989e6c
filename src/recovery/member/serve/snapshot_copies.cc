#include "recovery/member/serve/snapshot_copies.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/error.h"
#include "recovery/protocol/repeats.h"

namespace evermoe {

SnapshotCopies::SnapshotCopies(Dependencies dependencies, SnapshotCopiesOptions options)
    : in_(std::move(dependencies)), options_(options) {}

std::vector<OperatorBytes> SnapshotCopies::operator_bytes() const {
  std::vector<OperatorBytes> bytes;
  for (const StageOperator& op : in_.trainer.operators()) bytes.push_back(op.bytes);
  return bytes;
}

absl::Status SnapshotCopies::capture(SlotTime time, RecordBytes position) {
  // The former capture has ended with the step that it overlapped, unless that step changed
  // nothing.
  RETURN_IF_ERROR(wait_settled());
  auto chunks = chunks_of_slot(in_.schedule, time.slot, operator_bytes(),
                               static_cast<int64_t>(position.size()), options_.chunk_bytes_max);
  return begin({time, in_.schedule.slots(), std::move(position), std::move(chunks)});
}

absl::Status SnapshotCopies::capture_whole(Step state, RecordBytes position) {
  auto chunks = chunks_of_whole_state(operator_bytes(), static_cast<int64_t>(position.size()),
                                      options_.chunk_bytes_max);
  return begin(
      {{state, kWholeState}, in_.schedule.slots(), std::move(position), std::move(chunks)});
}

absl::Status SnapshotCopies::capture_position(SlotTime time, RecordBytes position) {
  std::vector<ChunkRange> chunks{{.size = static_cast<int64_t>(position.size())}};
  return begin({time, in_.schedule.slots(), std::move(position), std::move(chunks)});
}

absl::Status SnapshotCopies::begin_gradients(SlotTime time, RecordBytes position) {
  auto chunks = chunks_of_gradients(operator_bytes(), static_cast<int64_t>(position.size()),
                                    options_.chunk_bytes_max);
  return begin({time, in_.schedule.slots(), std::move(position), std::move(chunks),
                /*waits_for_gradients=*/true});
}

absl::Status SnapshotCopies::begin(CaptureQueue::Capture capture) {
  capture.written = in_.trainer.written();
  {
    const MutexLock lock(mutex_);
    if (is_suspended_) return Cancelled("this stage goes back");
    for (CopyDestination* to : in_.destinations) {
      if (to->takes(capture.time)) to->begin_window(capture.time.window, capture.slots);
    }
    captures_.begin(std::move(capture));
  }
  in_.sender.wake_service();
  return absl::OkStatus();
}

void SnapshotCopies::on_reduced(int operator_index) {
  {
    const MutexLock lock(mutex_);
    if (!captures_.waits_for_gradients()) return;
  }
  WrittenState written = in_.trainer.written();
  {
    const MutexLock lock(mutex_);
    captures_.set_ready(operator_index, std::move(written));
  }
  in_.sender.wake_service();
}

absl::Status SnapshotCopies::wait_read(int operator_index) {
  const absl::Duration began = in_.clock.now();
  bool has_waited = false;
  while (true) {
    {
      const MutexLock lock(mutex_);
      is_write_waiting_ = captures_.is_reading(operator_index);
      if (!is_write_waiting_) {
        read_wait_ += absl::ToDoubleSeconds(in_.clock.now() - began);
        return status_;
      }
      is_urgent_ = true;
    }
    if (!has_waited) in_.sender.wake_service();
    has_waited = true;
    RETURN_IF_ERROR(in_.views.wait_signal().status());
  }
}

absl::Status SnapshotCopies::wait_captured() {
  while (true) {
    {
      const MutexLock lock(mutex_);
      if (captures_.empty()) return status_;
      is_urgent_ = true;
    }
    in_.sender.wake_service();
    RETURN_IF_ERROR(in_.views.pass().status());
    RETURN_IF_ERROR(in_.views.wait_signal().status());
  }
}

absl::Status SnapshotCopies::wait_settled() {
  return wait_until([this] { return are_settled(); }, [] { return true; });
}

absl::Status SnapshotCopies::wait_until(const std::function<bool()>& is_done,
                                        const std::function<bool()>& is_wanted) {
  const absl::Duration began = in_.clock.now();
  const absl::Cleanup leave = [this] {
    const MutexLock lock(mutex_);
    is_awaited_ = false;
  };
  Repeats repeats;
  int64_t taken = chunks_taken();
  while (true) {
    {
      const MutexLock lock(mutex_);
      if (!status_.ok()) return status_;
      if ((captures_.empty() && under_way_ == 0 && is_done()) || !is_wanted()) {
        copy_wait_ += absl::ToDoubleSeconds(in_.clock.now() - began);
        return absl::OkStatus();
      }
      is_urgent_ = !captures_.empty();
      is_awaited_ = true;
    }
    RETURN_IF_ERROR(in_.views.pass().status());
    ASSIGN_OR_RETURN(const bool moved, in_.views.wait_signal());
    if (!moved) tell_if_moving(taken);
    if (moved) repeats.on_arrival();
    if (moved || !repeats.is_due()) continue;
    for (CopyDestination* to : in_.destinations) to->on_silence();
    in_.sender.wake_service();
  }
}

bool SnapshotCopies::are_settled() const {
  return std::ranges::all_of(in_.destinations, &CopyDestination::is_settled);
}

int64_t SnapshotCopies::chunks_taken() const {
  int64_t taken = in_.sender.chunks_taken();
  for (const CopyDestination* to : in_.destinations) taken += to->taken();
  return taken;
}

void SnapshotCopies::tell_if_moving(int64_t& taken) {
  const int64_t now = chunks_taken();
  if (std::exchange(taken, now) == now) return;
  in_.control.send(Milestone{in_.views.newest_view(), in_.rank, Milestone::Kind::kCopying, 0, {}});
}

void SnapshotCopies::abandon() {
  while (true) {
    {
      const MutexLock lock(mutex_);
      is_write_waiting_ = false;
      is_abandoned_ = under_way_ > 0;
      if (!is_abandoned_) {
        captures_.clear();
        is_suspended_ = false;
        break;
      }
    }
    in_.sender.wake_service();
    if (!in_.views.wait_signal().ok()) return;
  }
  in_.store.drop_incomplete(in_.rank);
}

Step SnapshotCopies::complete_window() const {
  Step everywhere(INT64_MAX);
  for (const CopyDestination* to : in_.destinations)
    everywhere = std::min(everywhere, to->complete_window());
  return everywhere;
}

void SnapshotCopies::suspend() {
  drop_reading();
  for (CopyDestination* to : in_.destinations) to->suspend();
  const MutexLock lock(mutex_);
  captures_.clear();
  is_suspended_ = true;
}

void SnapshotCopies::adopt(const std::vector<SlotTime>& times, const std::vector<Rank>& sources) {
  for (CopyDestination* to : in_.destinations) to->adopt(times, in_.schedule.slots(), sources);
  in_.sender.wake_service();
}

void SnapshotCopies::adopt_held(const std::vector<HeldSlot>& held) {
  for (CopyDestination* to : in_.destinations) {
    for (const HeldSlot& slot : held) to->adopt({slot.time}, slot.slots, {});
  }
  in_.sender.wake_service();
}

void SnapshotCopies::give_up(SlotTime time) {
  for (CopyDestination* to : in_.destinations) to->give_up(time);
  in_.wake_training.raise();
}

void SnapshotCopies::forget_before(Step window) {
  for (CopyDestination* to : in_.destinations) to->forget_before(window);
}

void SnapshotCopies::forget_between(Step complete, Step end) {
  for (CopyDestination* to : in_.destinations) to->forget_between(complete, end);
}

void SnapshotCopies::clear() {
  for (CopyDestination* to : in_.destinations) to->clear();
  const MutexLock lock(mutex_);
  captures_.clear();
  status_ = absl::OkStatus();
}

double SnapshotCopies::seconds_waited_for_reads() const {
  const MutexLock lock(mutex_);
  return read_wait_;
}

int64_t SnapshotCopies::captured_bytes() const {
  const MutexLock lock(mutex_);
  return captured_bytes_;
}

double SnapshotCopies::seconds_waited_for_copies() const {
  const MutexLock lock(mutex_);
  return copy_wait_;
}

absl::Status SnapshotCopies::status() const {
  const MutexLock lock(mutex_);
  return status_;
}

}  // namespace evermoe
