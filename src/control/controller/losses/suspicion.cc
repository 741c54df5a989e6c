#include "control/controller/losses/suspicion.h"

#include <algorithm>

namespace evermoe {

std::optional<Rank> Suspicion::accuser_of(Rank accused) const {
  const auto found =
      std::ranges::find_if(blames_, [&](const auto& one) { return one.second == accused; });
  return found == blames_.end() ? std::nullopt : std::optional(found->first);
}

bool Suspicion::concerns(Rank rank) const {
  return blames_.contains(rank) || accuser_of(rank).has_value();
}

std::optional<Rank> Suspicion::accused() const {
  std::optional<Rank> first;
  for (const auto& [accuser, blamed] : blames_) {
    if (!blamed) continue;
    if (!blames_.contains(*blamed)) return blamed;
    if (!first) first = blamed;
  }
  return first;
}

}  // namespace evermoe
