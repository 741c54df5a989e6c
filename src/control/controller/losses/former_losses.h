// Losses of which a controller that takes over has to tell, because the former one did not live to:
// they are seen by what is left of them. Pure.
#pragma once

#include <set>
#include <vector>

#include "control/controller/controller_interface.h"
#include "control/controller/role_table.h"

namespace evermoe {

// Roles that were lost while no controller looked.
std::vector<Rank> absent_roles(const RoleTable& roles);

// Threads: one at a time.
class FormerLosses {
 public:
  // Former controllers have opened views up to `views_after`.
  explicit FormerLosses(View views_after) : views_after_(views_after) {}

  // Roles that the former controller has replaced, each once: their processes have not played in
  // any view yet. Those that this one has replaced itself, in an incident or for a move, are none.
  // REQUIRES: all roles have reported.
  std::vector<Rank> take_replaced(const RoleTable& roles, Commit newest, bool replaces_itself);

 private:
  const View views_after_;
  std::set<Rank> told_;
};

}  // namespace evermoe
