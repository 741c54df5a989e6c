#include "recovery/member/serve/joiner_memory.h"

#include <algorithm>
#include <utility>

#include "base/fault_point.h"

namespace evermoe {
namespace {

// Chunks of a hand-over are kept nowhere else: so many wait to go out, then captures do.
constexpr size_t kHandedWaitingMax = 16;

}  // namespace

JoinerMemory::JoinerMemory(Dependencies dependencies, const CopyGateOptions& gate)
    : in_(dependencies),
      sender_(in_.transport, [](View, const absl::Status&) {}),
      peer_({in_.rank, sender_, in_.transport, in_.clock}, gate) {}

bool JoinerMemory::begin(View view, const PeerAddress& joiner) {
  if (joiner_ == joiner && view_ == view) return false;
  end();
  fault_point("move/copying");
  view_ = view;
  joiner_ = joiner;
  std::vector<PeerAddress> table(static_cast<size_t>(in_.seat.value) + 1);
  table.back() = joiner;
  peer_.set_holders(view, {in_.seat}, table, {});
  has_told_ = false;
  is_there_ = true;
  for (const Rank owner : in_.store.owners()) {
    for (const auto& [time, slots] : in_.store.held_slots(owner)) {
      at_first_.push_back({owner, time});
      if (owner == in_.rank)
        peer_.adopt({time}, slots, {});
      else
        offer({owner, time});
    }
  }
  if (at_first_.empty()) in_.control.send(CopiesGiven{view_, in_.rank});
  return true;
}

void JoinerMemory::end() {
  is_there_ = false;
  joiner_.reset();
  needed_ = nullptr;
  at_first_.clear();
  kept_.clear();
  {
    const MutexLock lock(mutex_);
    gives_only_ = nullptr;
  }
  peer_.suspend();
  peer_.set_own_first(false);
  peer_.set_holders(view_, {}, {}, {});
  peer_.clear();
}

// It goes on at once. Chunks that came before the joiner did are wanted when the slot is offered.
void JoinerMemory::on_kept(const Chunk& chunk, bool is_complete) {
  if (!is_there_) return;
  peer_.send_wanted(in_.seat, {chunk});
  if (is_complete)
    kept_.push_back({chunk.header().owner, {chunk.header().window, chunk.header().slot}});
}

// Behind their chunks: what is still on its way would be wanted once more.
void JoinerMemory::offer_kept() {
  if (peer_.is_any_waiting()) return;
  for (const SlotMessage& slot : std::exchange(kept_, {})) offer(slot);
}

void JoinerMemory::offer(const SlotMessage& slot) {
  sender_.send(in_.seat, view_, MessageKind::kOffer, encode(slot));
}

void JoinerMemory::on_acknowledged(const SlotMessage& slot) {
  if (!is_there_) return;
  heard_ = in_.clock.now();
  if (slot.owner == in_.rank) peer_.on_acknowledged(in_.seat, slot.time);
  note_given(slot);
}

// What is handed over is kept nowhere, and offered when all of it has been sent: it was lost on the
// way, or there is no room for it. Or the role stands already, and it has not been sent.
void JoinerMemory::on_wanted(const SlotMessage& slot, std::optional<std::vector<Chunk>> chunks) {
  if (!is_there_) return;
  if (is_of_hand_over(slot.time)) {
    if (!needed_ || needed_(slot.time)) tell_not_taken();
    return;
  }
  if (slot.owner != in_.rank && gives_only_own()) return;
  if (chunks) return peer_.send_wanted(in_.seat, *std::move(chunks));
  if (slot.owner == in_.rank) peer_.give_up(slot.time);
  note_given(slot);
}

void JoinerMemory::note_given(const SlotMessage& slot) {
  const auto is_this = [&](const SlotMessage& other) {
    return other.owner == slot.owner && other.time == slot.time;
  };
  if (std::erase_if(at_first_, is_this) > 0 && at_first_.empty())
    in_.control.send(CopiesGiven{view_, in_.rank});
}

void JoinerMemory::give_only(CopyLedger::IsNeeded is_needed) {
  {
    const MutexLock lock(mutex_);
    gives_only_ = std::move(is_needed);
  }
  sender_.wake_service();
}

void JoinerMemory::adopt(const std::vector<SlotTime>& times, int slots, const std::vector<Rank>&) {
  if (is_there_) peer_.adopt(times, slots, {});
}

// What comes too late for a role that stands would keep the rest of it waiting.
absl::Status JoinerMemory::add(const Chunk& chunk) {
  const ChunkHeader& header = chunk.header();
  if (needed_ && !needed_({header.window, header.slot})) return absl::OkStatus();
  return peer_.add(chunk);
}

void JoinerMemory::on_silence() {
  if (is_there_) peer_.on_silence();
}

void JoinerMemory::work(const Pressure& pressure) {
  if (!is_there_) {
    sender_.reap();
    return;
  }
  if (const CopyLedger::IsNeeded is_needed = take_gives_only()) {
    peer_.send_only(is_needed);
    needed_ = is_needed;
  }
  watch_hand_over();
  Pressure of_copies = pressure;
  std::erase_if(of_copies.under_way, is_of_hand_over);
  peer_.work(of_copies);
  offer_kept();
}

bool JoinerMemory::is_handing_over() const {
  return peer_.handed_waiting() > 0 || !peer_.is_settled(needed_ ? needed_ : is_of_hand_over);
}

// Where a line is cut without a word, roles would stand until the move is called off.
void JoinerMemory::watch_hand_over() {
  const absl::Duration now = in_.clock.now();
  const int64_t taken = sender_.chunks_taken();
  const bool has_arrived = std::exchange(taken_before_, taken) != taken;
  if (has_arrived || !is_handing_over()) heard_ = now;
  if (now - heard_ >= in_.silence_max) tell_not_taken();
}

void JoinerMemory::tell_not_taken() {
  if (std::exchange(has_told_, true)) return;
  in_.control.send(CannotLeave{view_, in_.rank, CannotLeave::Why::kNotTaken});
}

CopyLedger::IsNeeded JoinerMemory::take_gives_only() {
  const MutexLock lock(mutex_);
  return std::exchange(gives_only_, nullptr);
}

bool JoinerMemory::has_room(bool) const {
  return !is_there_ || peer_.handed_waiting() < kHandedWaitingMax;
}

absl::Duration JoinerMemory::pause(const Pressure& pressure) {
  if (!is_there_) return absl::InfiniteDuration();
  const absl::Duration pause = peer_.pause(pressure);
  if (has_told_ || !is_handing_over()) return pause;
  return std::clamp(heard_ + in_.silence_max - in_.clock.now(), absl::ZeroDuration(), pause);
}

}  // namespace evermoe
