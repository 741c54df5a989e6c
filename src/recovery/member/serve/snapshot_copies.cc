#include "recovery/member/serve/snapshot_copies.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "recovery/protocol/repeats.h"

namespace evermoe {
namespace {

// How soon to look again while chunks are on their way.
constexpr absl::Duration kPoll = absl::Milliseconds(1);

}  // namespace

SnapshotCopies::SnapshotCopies(Dependencies dependencies, SnapshotCopiesOptions options)
    : in_(std::move(dependencies)), options_(options) {}

absl::Status SnapshotCopies::capture(SlotTime time, RecordBytes position) {
  // The former capture has ended with the step that it overlapped, unless that step changed
  // nothing.
  RETURN_IF_ERROR(wait_settled());
  std::vector<OperatorBytes> bytes;
  for (const StageOperator& op : in_.trainer.operators()) bytes.push_back(op.bytes);
  const auto position_bytes = static_cast<int64_t>(position.size());
  auto chunks =
      time.slot < in_.schedule.slots()
          ? chunks_of_slot(in_.schedule, time.slot, bytes, position_bytes, options_.chunk_bytes_max)
          : chunks_of_gradients(bytes, position_bytes, options_.chunk_bytes_max);
  {
    const MutexLock lock(mutex_);
    if (is_suspended_) return Cancelled("this stage goes back");
    capture_ = Capture{time, in_.schedule.slots(), std::move(position), std::move(chunks)};
    ledger_.begin_window(time.window, in_.schedule.slots());
  }
  in_.sender.wake_service();
  return absl::OkStatus();
}

bool SnapshotCopies::is_reading(int operator_index) const {
  if (!capture_) return false;
  for (size_t i = capture_->next; i < capture_->chunks.size(); ++i) {
    if (capture_->chunks[i].operator_index == operator_index) return true;
  }
  return false;
}

absl::Status SnapshotCopies::wait_read(int operator_index) {
  const absl::Duration began = in_.clock.now();
  bool has_waited = false;
  while (true) {
    {
      const MutexLock lock(mutex_);
      if (!is_reading(operator_index)) {
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

absl::Status SnapshotCopies::wait_settled() {
  const absl::Duration began = in_.clock.now();
  Repeats repeats;
  int64_t taken = in_.sender.chunks_taken();
  while (true) {
    {
      const MutexLock lock(mutex_);
      if (!status_.ok()) return status_;
      if (!capture_ && ledger_.is_settled()) {
        copy_wait_ += absl::ToDoubleSeconds(in_.clock.now() - began);
        return absl::OkStatus();
      }
      is_urgent_ = true;
    }
    RETURN_IF_ERROR(in_.views.pass().status());
    ASSIGN_OR_RETURN(const bool moved, in_.views.wait_signal());
    if (!moved) tell_if_moving(taken);
    if (moved) repeats.on_arrival();
    if (moved || !repeats.is_due()) continue;
    {
      const MutexLock lock(mutex_);
      offer_ = std::max(offer_, Offer::kWhenSent);
    }
    in_.sender.wake_service();
  }
}

void SnapshotCopies::tell_if_moving(int64_t& taken) {
  const int64_t now = in_.sender.chunks_taken();
  if (std::exchange(taken, now) == now) return;
  View view;
  {
    const MutexLock lock(mutex_);
    view = view_;
  }
  in_.control.send(Milestone{view, in_.rank, Milestone::Kind::kCopying, 0, {}});
}

void SnapshotCopies::abandon() {
  // The service thread holds the mutex of `reads_now_` only for moments; a read takes one chunk's
  // time.
  while (true) {
    {
      const MutexLock lock(mutex_);
      if (!reads_now_) {
        capture_.reset();
        is_suspended_ = false;
        break;
      }
    }
    if (!in_.views.wait_signal().ok()) return;
  }
  in_.store.drop_incomplete(in_.rank);
}

Step SnapshotCopies::complete_window() const {
  const MutexLock lock(mutex_);
  return ledger_.complete_window();
}

void SnapshotCopies::suspend() {
  outgoing_.clear();
  const MutexLock lock(mutex_);
  capture_.reset();
  is_suspended_ = true;
}

absl::Duration SnapshotCopies::work() {
  const size_t in_flight = in_.sender.reap();
  Offer offer;
  {
    const MutexLock lock(mutex_);
    offer = offer_;
  }
  const bool is_all_sent = outgoing_.empty() && in_flight == 0;
  if (offer == Offer::kNow || (offer == Offer::kWhenSent && is_all_sent)) offer_missing();
  if (in_flight < static_cast<size_t>(options_.chunks_in_flight_max) && !send_chunk())
    capture_chunk();
  const MutexLock lock(mutex_);
  if (!outgoing_.empty() && in_flight < static_cast<size_t>(options_.chunks_in_flight_max))
    return absl::ZeroDuration();
  if (in_flight > 0 || !outgoing_.empty()) return kPoll;
  if (!capture_) return absl::InfiniteDuration();
  return is_urgent_ ? absl::ZeroDuration()
                    : std::max(absl::ZeroDuration(), next_capture_ - in_.clock.now());
}

std::optional<ChunkHeader> SnapshotCopies::next_chunk() {
  const MutexLock lock(mutex_);
  if (!capture_ || (!is_urgent_ && in_.clock.now() < next_capture_)) return std::nullopt;
  const ChunkRange& plan = capture_->chunks[capture_->next];
  reads_now_ = true;
  return ChunkHeader{.owner = in_.rank,
                     .window = capture_->time.window,
                     .slot = capture_->time.slot,
                     .slots = capture_->slots,
                     .chunk = static_cast<int32_t>(capture_->next),
                     .chunks = static_cast<int32_t>(capture_->chunks.size()),
                     .operator_index = plan.operator_index,
                     .kind = plan.kind,
                     .offset = plan.offset,
                     .size = plan.size};
}

void SnapshotCopies::on_read(const ChunkHeader& header) {
  const MutexLock lock(mutex_);
  reads_now_ = false;
  captured_bytes_ += header.size;
  if (++capture_->next == capture_->chunks.size()) {
    capture_.reset();
    is_urgent_ = false;
    ledger_.on_captured({header.window, header.slot});
  }
  next_capture_ =
      in_.clock.now() + absl::Seconds(static_cast<double>(header.size) / options_.bytes_per_second);
}

void SnapshotCopies::capture_chunk() {
  const std::optional<ChunkHeader> header = next_chunk();
  if (!header) return;
  Chunk chunk = Chunk::make(*header);
  if (header->operator_index >= 0) {
    in_.trainer.capture(header->operator_index, header->kind, header->offset,
                        chunk.writable_body());
  } else {
    const MutexLock lock(mutex_);
    std::memcpy(chunk.writable_body().data(), capture_->position.data(), capture_->position.size());
  }
  on_read(*header);
  chunk.seal();
  fault_point("capture/copied");
  const absl::Status stored = in_.store.add(chunk);
  std::vector<Rank> holders;
  {
    const MutexLock lock(mutex_);
    status_.Update(stored);
    holders = ledger_.holders();
  }
  for (const Rank holder : holders)
    outgoing_.push_back({holder, {header->window, header->slot}, chunk});
  in_.wake_training.raise();
}

bool SnapshotCopies::send_chunk() {
  if (outgoing_.empty()) return false;
  const Outgoing next = std::move(outgoing_.front());
  outgoing_.pop_front();
  View view;
  {
    const MutexLock lock(mutex_);
    view = view_;
  }
  in_.sender.send(next.holder, view, MessageKind::kChunk, next.chunk.block(), next.chunk.owner());
  fault_point("capture/sent");
  return true;
}

// Every slot that a holder has not acknowledged, also the one of a capture under way.
void SnapshotCopies::offer_missing() {
  std::vector<CopyLedger::MissingCopy> missing;
  View view;
  {
    const MutexLock lock(mutex_);
    offer_ = Offer::kNothing;
    view = view_;
    missing = ledger_.missing(capture_ ? std::optional(capture_->time) : std::nullopt);
  }
  outgoing_.clear();
  for (const auto& [holder, time] : missing)
    in_.sender.send(holder, view, MessageKind::kOffer, encode(SlotMessage{in_.rank, time}));
}

void SnapshotCopies::send_wanted(Rank holder, SlotTime time, std::vector<Chunk> chunks) {
  for (Chunk& chunk : chunks) outgoing_.push_back({holder, time, std::move(chunk)});
}

void SnapshotCopies::set_holders(View view, const std::vector<Rank>& holders,
                                 const std::vector<PeerAddress>& table) {
  const MutexLock lock(mutex_);
  view_ = view;
  offer_ = Offer::kNow;  // what was under way in the old view is dropped by its receivers
  ledger_.set_holders(holders, table);
}

void SnapshotCopies::adopt(const std::vector<SlotTime>& times, const std::vector<Rank>& sources) {
  {
    const MutexLock lock(mutex_);
    ledger_.adopt(times, in_.schedule.slots(), sources);
    offer_ = Offer::kNow;
  }
  in_.sender.wake_service();
}

void SnapshotCopies::on_acknowledged(Rank holder, SlotTime time) {
  {
    const MutexLock lock(mutex_);
    ledger_.on_acknowledged(holder, time);
  }
  in_.wake_training.raise();
}

void SnapshotCopies::forget_before(Step window) {
  const MutexLock lock(mutex_);
  ledger_.forget_before(window);
}

void SnapshotCopies::clear() {
  const MutexLock lock(mutex_);
  capture_.reset();
  ledger_.clear();
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
