#include "control/controller/membership/wake_preparation.h"

namespace evermoe {

WakePreparation::Decision WakePreparation::decide(absl::Duration now,
                                                  const std::vector<RoleMove>& moves,
                                                  const StandbyBook& standbys,
                                                  absl::Duration wait_max) {
  if (!until_) {
    until_ = now + wait_max;
    failed_.clear();
  }
  std::map<Node, KeepStandbys> needed;
  for (const RoleMove& move : moves) {
    KeepStandbys& order = needed[move.node];
    order.node = move.node;
    ++order.count;
    order.roles.push_back(move.rank);
  }
  Decision decision{.is_over = true};
  if (now >= *until_) return decision;
  for (const auto& [node, order] : needed) {
    if (standbys.warm(node) >= order.count || failed_.contains(node)) continue;
    decision.is_over = false;
    int& ordered = ordered_[node];
    if (ordered != order.count) decision.orders.push_back(order);
    ordered = order.count;
  }
  return decision;
}

void WakePreparation::forget() {
  until_.reset();
  ordered_.clear();
  failed_.clear();
}

}  // namespace evermoe
