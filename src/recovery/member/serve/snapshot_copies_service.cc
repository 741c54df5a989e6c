// What the service thread does for captures (snapshot_copies.h): reads chunks, seals them and adds
// them to the destinations.
#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "base/fault_point.h"
#include "recovery/member/serve/snapshot_copies.h"

namespace evermoe {
namespace {

// Chunks that are read at a time: enough to keep a device's line busy while one is sealed.
constexpr size_t kReadingMax = 8;
// Chunks that are read in a row before the service thread looks at anything else. They are sealed
// and sent afterwards.
constexpr size_t kInARowMax = 64;

SlotTime time_of(const Chunk& chunk) { return {chunk.header().window, chunk.header().slot}; }

}  // namespace

CopyDestination::Pressure SnapshotCopies::pressure() const {
  std::vector<SlotTime> under_way;
  for (const Read& one : read_) {
    if (one.is_last) under_way.push_back(time_of(one.chunk));
  }
  const MutexLock lock(mutex_);
  std::ranges::copy(captures_.under_way(), std::back_inserter(under_way));
  return {is_urgent_ || is_awaited_, std::move(under_way)};
}

absl::Duration SnapshotCopies::work() {
  drop_if_abandoned();
  const CopyDestination::Pressure pressure = this->pressure();
  for (CopyDestination* to : in_.destinations) to->work(pressure);
  read_chunks();
  add_chunk();
  absl::Duration pause = absl::InfiniteDuration();
  for (CopyDestination* to : in_.destinations) pause = std::min(pause, to->pause(pressure));
  if (!reading_.empty() || !read_.empty()) return absl::ZeroDuration();
  const bool have_room = this->have_room();
  const MutexLock lock(mutex_);
  const std::optional<ChunkHeader> next = captures_.next(in_.rank);
  return !next || !have_room ? pause : std::min(pause, pause_before(*next));
}

bool SnapshotCopies::is_write_waiting() const {
  const MutexLock lock(mutex_);
  return is_write_waiting_;
}

bool SnapshotCopies::have_room() const {
  return std::ranges::all_of(in_.destinations, [is_urgent = is_write_waiting()](const auto* to) {
    return to->has_room(is_urgent);
  });
}

void SnapshotCopies::read_chunks() {
  for (size_t i = 0; i < kInARowMax; ++i) {
    if (i + read_.size() > 0 && !reads_ahead_ && !is_write_waiting()) return;
    begin_chunks();
    if (reading_.empty()) return;
    finish_oldest();
  }
}

void SnapshotCopies::begin_chunks() {
  while (reading_.size() < kReadingMax && have_room()) {
    const std::optional<ChunkHeader> next = next_chunk();
    if (!next) return;
    begin_chunk(*next);
    if (reading_.back().copy == nullptr) return;
  }
}

// The step waits for its gradients in its end.
absl::Duration SnapshotCopies::pause_before(const ChunkHeader& chunk) const {
  const bool is_paced = !is_urgent_ && !reads_ahead_ && chunk.kind != SnapshotKind::kGradients;
  return is_paced ? std::max(absl::ZeroDuration(), next_capture_ - in_.clock.now())
                  : absl::ZeroDuration();
}

std::optional<ChunkHeader> SnapshotCopies::next_chunk() {
  const MutexLock lock(mutex_);
  std::optional<ChunkHeader> next = captures_.next(in_.rank);
  if (!next || pause_before(*next) > absl::ZeroDuration()) return std::nullopt;
  captures_.on_begun(*next);
  ++under_way_;
  next_capture_ =
      in_.clock.now() + absl::Seconds(static_cast<double>(next->size) / options_.bytes_per_second);
  return next;
}

void SnapshotCopies::begin_chunk(const ChunkHeader& header) {
  Reading& one = reading_.emplace_back();
  one.chunk = Chunk::make(
      header, in_.trainer.capture_memory(Chunk::kHeaderBytes + static_cast<size_t>(header.size)));
  WrittenState written;
  {
    const MutexLock lock(mutex_);
    written = captures_.written(header);
    if (header.operator_index < 0) {
      std::ranges::copy(std::as_bytes(std::span(captures_.position_of(header))),
                        one.chunk.writable_body().begin());
      return;
    }
  }
  one.copy = in_.trainer.begin_capture(header.operator_index, header.kind, header.offset,
                                       one.chunk.writable_body(), written);
  reads_ahead_ = one.copy != nullptr;
}

void SnapshotCopies::finish_oldest() {
  Reading& oldest = reading_.front();
  if (oldest.copy != nullptr) oldest.copy->wait();
  Read& read = read_.emplace_back();
  read.chunk = std::move(oldest.chunk);
  reading_.pop_front();
  {
    const MutexLock lock(mutex_);
    captured_bytes_ += read.chunk.header().size;
    read.is_last = captures_.on_read(read.chunk.header());
    if (captures_.empty()) is_urgent_ = false;
  }
  in_.wake_training.raise();
}

// What is dropped before its last chunk is added has not been captured.
void SnapshotCopies::add_chunk() {
  if (read_.empty()) return;
  auto [chunk, is_last] = std::move(read_.front());
  read_.pop_front();
  chunk.seal();
  fault_point("capture/copied");
  absl::Status added;
  for (CopyDestination* to : in_.destinations) {
    if (!to->takes(time_of(chunk))) continue;
    if (is_last) to->on_captured(time_of(chunk));
    added.Update(to->add(chunk));
  }
  {
    const MutexLock lock(mutex_);
    --under_way_;
    status_.Update(added);
  }
  in_.wake_training.raise();
}

void SnapshotCopies::drop_reading() {
  for (const Reading& one : reading_) {
    if (one.copy != nullptr) one.copy->wait();
  }
  reading_.clear();
  read_.clear();
  const MutexLock lock(mutex_);
  under_way_ = 0;
}

void SnapshotCopies::drop_if_abandoned() {
  {
    const MutexLock lock(mutex_);
    if (!is_abandoned_) return;
    is_abandoned_ = false;
    captures_.clear();
  }
  drop_reading();
  in_.wake_training.raise();
}

}  // namespace evermoe
