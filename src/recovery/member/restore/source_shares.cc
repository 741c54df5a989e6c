#include "recovery/member/restore/source_shares.h"

#include <algorithm>

namespace evermoe {

bool SourceShares::refuse(Rank source, SlotTime time) {
  if (std::ranges::find(refused_, std::pair(source, time)) != refused_.end()) return false;
  refused_.emplace_back(source, time);
  return true;
}

std::vector<SourceShares::Share> SourceShares::shares_of(SlotTime time) const {
  std::vector<Share> shares;
  for (const Rank source : sources_) {
    if (std::ranges::find(refused_, std::pair(source, time)) == refused_.end())
      shares.push_back({source, {}});
  }
  const size_t count = shares.size();
  for (size_t i = 0; i < count; ++i)
    shares[i].chunks = {static_cast<int32_t>((i + turn_) % count), static_cast<int32_t>(count)};
  return shares;
}

std::vector<Rank> SourceShares::sound() const {
  std::vector<Rank> sound = sources_;
  std::erase_if(sound, [&](Rank source) {
    return std::ranges::any_of(refused_, [&](const auto& one) { return one.first == source; });
  });
  return sound;
}

}  // namespace evermoe
