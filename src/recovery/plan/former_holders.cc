#include "recovery/plan/former_holders.h"

#include <iterator>
#include <utility>

namespace evermoe {

void FormerHolders::on_chosen(Step complete, HoldersOfRanks holders) {
  chosen_.erase(chosen_.lower_bound(complete), chosen_.end());
  if (!chosen_.empty()) chosen_.erase(chosen_.begin(), std::prev(chosen_.end()));
  chosen_.emplace(complete, std::move(holders));
}

HoldersOfRanks FormerHolders::of(Step window) const {
  const auto later = chosen_.lower_bound(window);
  return later == chosen_.begin() ? HoldersOfRanks{} : std::prev(later)->second;
}

}  // namespace evermoe
