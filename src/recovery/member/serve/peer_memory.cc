#include "recovery/member/serve/peer_memory.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/fault_point.h"

namespace evermoe {
namespace {

// How soon to look again while chunks are on their way.
constexpr absl::Duration kPoll = absl::Milliseconds(1);

}  // namespace

// ---- what holders have

void PeerMemory::set_holders(const Plan& plan) {
  const auto own = static_cast<size_t>(in_.rank.value);
  std::vector<Rank> sources = plan.sources.empty() ? std::vector<Rank>() : plan.sources[own];
  std::erase(sources, in_.rank);
  set_holders(plan.view, plan.holders[own], plan.table, sources);
}

void PeerMemory::set_holders(View view, const std::vector<Rank>& holders,
                             const std::vector<PeerAddress>& table,
                             const std::vector<Rank>& sources) {
  const MutexLock lock(mutex_);
  view_ = view;
  offer_ = Offer::kNow;  // what was under way in the old view is dropped by its receivers
  ledger_.set_holders(holders, table, sources);
}

void PeerMemory::on_acknowledged(Rank holder, SlotTime time) {
  const MutexLock lock(mutex_);
  ledger_.on_acknowledged(holder, time);
}

void PeerMemory::begin_window(Step window, int slots) {
  const MutexLock lock(mutex_);
  ledger_.begin_window(window, slots);
}

void PeerMemory::on_captured(SlotTime time) {
  const MutexLock lock(mutex_);
  ledger_.on_captured(time);
}

void PeerMemory::adopt(const std::vector<SlotTime>& times, int slots,
                       const std::vector<Rank>& sources) {
  const MutexLock lock(mutex_);
  ledger_.adopt(times, slots, sources);
  offer_ = Offer::kNow;
}

void PeerMemory::give_up(SlotTime time) {
  const MutexLock lock(mutex_);
  ledger_.give_up(time);
}

bool PeerMemory::is_settled() const {
  const MutexLock lock(mutex_);
  return ledger_.is_settled();
}

bool PeerMemory::is_settled(const CopyLedger::IsNeeded& is_needed) const {
  const MutexLock lock(mutex_);
  return ledger_.is_settled(is_needed);
}

Step PeerMemory::complete_window() const {
  const MutexLock lock(mutex_);
  return ledger_.complete_window();
}

void PeerMemory::on_silence() {
  const MutexLock lock(mutex_);
  offer_ = std::max(offer_, Offer::kWhenSent);
}

void PeerMemory::forget_before(Step window) {
  const MutexLock lock(mutex_);
  ledger_.forget_before(window);
}

void PeerMemory::forget_between(Step complete, Step end) {
  const MutexLock lock(mutex_);
  ledger_.forget_between(complete, end);
}

void PeerMemory::clear() {
  const MutexLock lock(mutex_);
  ledger_.clear();
}

PeerMemory::Offer PeerMemory::offer() const {
  const MutexLock lock(mutex_);
  return offer_;
}

View PeerMemory::view() const {
  const MutexLock lock(mutex_);
  return view_;
}

// ---- what goes out

// A role that is handed over may have stopped for it: its chunks go first.
absl::Status PeerMemory::add(const Chunk& chunk) {
  const bool is_handed = is_of_hand_over({chunk.header().window, chunk.header().slot});
  std::vector<Rank> holders;
  {
    const MutexLock lock(mutex_);
    holders = ledger_.holders();
  }
  for (const Rank holder : holders) {
    if (is_handed)
      first_.insert(first_.begin() + static_cast<int64_t>(handed_waiting_++), {holder, chunk});
    else
      (own_first_ ? first_ : later_).push_back({holder, chunk});
  }
  return absl::OkStatus();
}

void PeerMemory::set_own_first(bool own_first) {
  if (std::exchange(own_first_, own_first) == own_first || !own_first) return;
  const auto is_own = [this](const Outgoing& one) { return one.chunk.header().owner == in_.rank; };
  const auto others = std::stable_partition(later_.begin(), later_.end(), is_own);
  first_.insert(first_.end(), std::move_iterator(later_.begin()), std::move_iterator(others));
  later_.erase(later_.begin(), others);
}

void PeerMemory::send_only(const CopyLedger::IsNeeded& is_needed) {
  const auto is_other = [&](const Outgoing& one) {
    const ChunkHeader& header = one.chunk.header();
    return header.owner != in_.rank || !is_needed({header.window, header.slot});
  };
  std::erase_if(first_, is_other);
  std::erase_if(later_, is_other);
  handed_waiting_ = static_cast<size_t>(std::ranges::count_if(first_, [](const Outgoing& one) {
    return is_of_hand_over({one.chunk.header().window, one.chunk.header().slot});
  }));
}

void PeerMemory::drop_outgoing() {
  first_.clear();
  later_.clear();
  handed_waiting_ = 0;
}

void PeerMemory::send_wanted(Rank holder, std::vector<Chunk> chunks) {
  for (Chunk& chunk : chunks) later_.push_back({holder, std::move(chunk)});
}

void PeerMemory::work(const Pressure& pressure) {
  in_flight_ = in_.sender.reap();
  const bool is_all_sent = !is_any_waiting() && in_flight_ == 0;
  const Offer offer = this->offer();
  if (offer == Offer::kNow || (offer == Offer::kWhenSent && is_all_sent)) offer_missing(pressure);
  release_former();
  send_chunk(pressure);
}

// What makes way for messages keeps no capture waiting, and no network the training: chunks are in
// this process's memory anyway.
bool PeerMemory::has_room(bool is_urgent) const {
  return is_urgent || options_.keeps_to_gaps ||
         (!is_any_waiting() && in_flight_ < static_cast<size_t>(options_.chunks_in_flight_max));
}

absl::Duration PeerMemory::pause(const Pressure& pressure) {
  if (is_any_waiting() && may_send(pressure)) return absl::ZeroDuration();
  return in_flight_ > 0 || is_any_waiting() ? kPoll : absl::InfiniteDuration();
}

bool PeerMemory::may_send(const Pressure& pressure) {
  return gate_.may_send(
      {in_.clock.now(), in_.transport.sends_under_way(), in_flight_, pressure.is_urgent});
}

PeerMemory::Outgoing PeerMemory::take_next() {
  std::deque<Outgoing>& queue = first_.empty() ? later_ : first_;
  Outgoing next = std::move(queue.front());
  queue.pop_front();
  if (handed_waiting_ > 0) --handed_waiting_;
  return next;
}

void PeerMemory::send_chunk(const Pressure& pressure) {
  if (!is_any_waiting() || !may_send(pressure)) return;
  gate_.on_sent();
  const Outgoing next = take_next();
  in_.sender.send(next.holder, view(), MessageKind::kChunk, next.chunk.block(), next.chunk.owner());
  ++in_flight_;
  fault_point("capture/sent");
}

// Every slot that a holder has not acknowledged, also those of captures under way.
void PeerMemory::offer_missing(const Pressure& pressure) {
  std::vector<CopyLedger::MissingCopy> missing;
  View view;
  {
    const MutexLock lock(mutex_);
    offer_ = Offer::kNothing;
    view = view_;
    missing = ledger_.missing(pressure.under_way);
  }
  drop_outgoing();
  for (const auto& [holder, time] : missing)
    in_.sender.send(holder, view, MessageKind::kOffer, encode(SlotMessage{in_.rank, time}));
}

void PeerMemory::release_former() {
  std::vector<Rank> released;
  {
    const MutexLock lock(mutex_);
    released = ledger_.release();
  }
  for (const Rank rank : released) in_.sender.send(rank, view(), MessageKind::kForget, {});
}

}  // namespace evermoe
