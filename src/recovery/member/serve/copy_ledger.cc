#include "recovery/member/serve/copy_ledger.h"

#include <algorithm>

namespace evermoe {

void CopyLedger::on_captured(SlotTime time) { captured_.insert(slot(time)); }

void CopyLedger::adopt(const std::vector<SlotTime>& times, int slots,
                       const std::vector<Rank>& sources) {
  for (const SlotTime time : times) {
    begin_window(time.window, slots);
    captured_.insert(slot(time));
    for (Holder& holder : holders_) {
      const bool has_it = std::find(sources.begin(), sources.end(), holder.rank) != sources.end();
      if (has_it) holder.acknowledged.insert(slot(time));
    }
  }
}

void CopyLedger::on_acknowledged(Rank holder, SlotTime time) {
  for (Holder& known : holders_) {
    if (known.rank == holder) known.acknowledged.insert(slot(time));
  }
}

void CopyLedger::set_holders(const std::vector<Rank>& holders,
                             const std::vector<PeerAddress>& table,
                             const std::vector<Rank>& sources) {
  former_.insert(sources.begin(), sources.end());
  for (const Holder& holder : holders_) former_.insert(holder.rank);
  for (const Rank holder : holders) former_.erase(holder);
  std::vector<Holder> before;
  before.swap(holders_);
  for (const Rank rank : holders) {
    Holder holder{rank, table[static_cast<size_t>(rank.value)], {}};
    for (Holder& former : before) {
      if (former.rank == rank && former.address == holder.address)
        holder.acknowledged = std::move(former.acknowledged);
    }
    holders_.push_back(std::move(holder));
  }
}

void CopyLedger::forget_before(Step window) {
  agreed_ = std::max(agreed_, window);
  forget_between(Step(-1), window);
}

void CopyLedger::forget_between(Step complete, Step end) {
  const auto is_between = [&](Step window) { return complete < window && window < end; };
  std::erase_if(captured_, [&](const Slot& slot) { return is_between(slot.first); });
  std::erase_if(slots_of_window_, [&](const auto& window) { return is_between(window.first); });
  for (Holder& holder : holders_)
    std::erase_if(holder.acknowledged, [&](const Slot& slot) { return is_between(slot.first); });
}

std::vector<Rank> CopyLedger::release() {
  if (former_.empty() || !is_captured(agreed_) || !is_settled()) return {};
  std::vector<Rank> released(former_.begin(), former_.end());
  former_.clear();
  return released;
}

void CopyLedger::clear() {
  former_.clear();
  captured_.clear();
  slots_of_window_.clear();
  agreed_ = Step(-1);
  for (Holder& holder : holders_) holder.acknowledged.clear();
}

std::vector<Rank> CopyLedger::holders() const {
  std::vector<Rank> ranks;
  for (const Holder& holder : holders_) ranks.push_back(holder.rank);
  return ranks;
}

bool CopyLedger::is_settled(const IsNeeded& is_needed) const {
  return std::all_of(holders_.begin(), holders_.end(), [&](const Holder& holder) {
    return std::ranges::all_of(captured_, [&](const Slot& slot) {
      return holder.acknowledged.contains(slot) || !is_needed({slot.first, slot.second});
    });
  });
}

bool CopyLedger::is_captured(Step window) const {
  const auto slots = slots_of_window_.find(window);
  if (slots == slots_of_window_.end()) return false;
  const auto count = std::ranges::count_if(captured_, [&](const Slot& slot) {
    return slot.first == window && slot.second < slots->second;
  });
  return count == slots->second;
}

Step CopyLedger::complete_window() const {
  std::map<Step, int> slots;
  for (const Slot& slot : captured_) {
    if (slot.second >= slots_of_window_.at(slot.first)) continue;
    const bool is_everywhere =
        std::all_of(holders_.begin(), holders_.end(),
                    [&](const Holder& holder) { return holder.acknowledged.contains(slot); });
    if (is_everywhere) ++slots[slot.first];
  }
  Step newest(-1);
  for (const auto& [window, count] : slots) {
    if (count == slots_of_window_.at(window)) newest = window;
  }
  return newest;
}

std::vector<CopyLedger::MissingCopy> CopyLedger::missing(
    const std::vector<SlotTime>& under_way) const {
  std::set<Slot> slots = captured_;
  for (const SlotTime time : under_way) slots.insert(slot(time));
  std::vector<MissingCopy> missing;
  for (const Holder& holder : holders_) {
    for (const Slot& slot : slots) {
      if (!holder.acknowledged.contains(slot))
        missing.push_back({holder.rank, SlotTime{slot.first, slot.second}});
    }
  }
  return missing;
}

}  // namespace evermoe
