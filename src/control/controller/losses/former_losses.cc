#include "control/controller/losses/former_losses.h"

#include <cstdint>

namespace evermoe {

std::vector<Rank> absent_roles(const RoleTable& roles) {
  std::vector<Rank> absent;
  for (int32_t r = 0; r < roles.size(); ++r) {
    if (roles[Rank(r)].phase() == RoleState::Phase::kNone) absent.push_back(Rank(r));
  }
  return absent;
}

std::vector<Rank> FormerLosses::take_replaced(const RoleTable& roles, Commit newest,
                                              bool replaces_itself) {
  std::vector<Rank> replaced;
  if (newest < Commit(0)) return replaced;
  const View own_since = replaces_itself ? View(views_after_.value + 1) : View(UINT32_MAX);
  for (int32_t r = 0; r < roles.size(); ++r) {
    const RoleState& role = roles[Rank(r)];
    if (role.report->stage_epoch == View(0) && role.since < own_since &&
        told_.insert(Rank(r)).second)
      replaced.push_back(Rank(r));
  }
  return replaced;
}

}  // namespace evermoe
