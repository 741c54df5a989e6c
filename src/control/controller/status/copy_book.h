// Which roles hold the state of each role in memory, as the newest plan and what came after it
// tell. Pure.
//
//   a plan      what members reported of the window to which the job would go back, with the
//               gradients since where they are kept
//   a newer     that window is at the holders that the plan named, or no rank would have it for
//   window      complete
//
// Before the first complete window nobody's copies are needed: a pure function of the seed, or the
// checkpoint that the job has just loaded, is the source.
#pragma once

#include <vector>

#include "control/controller/role_table.h"
#include "control/controller/status/survivable_losses.h"
#include "protection/strategy/strategy.h"
#include "recovery/protocol/messages.h"

namespace evermoe {

class CopyBook {
 public:
  explicit CopyBook(const Strategy& strategy)
      : is_protected_(strategy.keeps_copies), needs_gradients_(strategy.keeps_gradients) {}

  // REQUIRES: every role has reported for this plan.
  void on_plan(const Plan& plan, const RoleTable& roles);
  void on_window(Step complete);  // of the present view

  Step window() const { return window_; }
  // With the nodes where the roles are now.
  SurvivableLosses survivable(const RoleTable& roles) const;
  // Of all roles that this node plays.
  bool survives_loss_of(Node node, const RoleTable& roles) const;
  // A plan has been made: before it nothing is known.
  bool is_known() const { return is_known_; }

 private:
  std::vector<std::vector<Node>> keepers(const RoleTable& roles) const;

  const bool is_protected_;
  const bool needs_gradients_;
  bool is_known_ = false;
  Step window_{-1};
  std::vector<std::vector<Rank>> held_by_;  // by rank, besides itself where it is not fresh
  std::vector<std::vector<Rank>> holders_;  // from the next window on
};

}  // namespace evermoe
