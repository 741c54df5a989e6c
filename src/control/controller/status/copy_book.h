// Which roles hold the state of each role in memory, as the newest plan and what came after it
// tell. Pure.
//
//   a plan      what members reported of the window to which the job would go back, with the
//               gradients since where they are kept
//   two steps   that were committed in the plan's view: nobody ends a step before all that it had
//               captured before is at its holders, and the first may have begun in a former view
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
      : is_protected_(strategy.keeps_copies()), needs_gradients_(strategy.keeps_gradients()) {}

  // REQUIRES: every role has reported for this plan.
  void on_plan(const Plan& plan, const RoleTable& roles);
  // Committed in the view of the newest plan; as often as it is reported.
  void on_step(Step step, Step complete_window);

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
  MembershipHistory membership_;  // of the newest plan
  Step window_{-1};
  std::vector<std::vector<Rank>> held_by_;  // by rank, with itself where it is not fresh
  std::vector<std::vector<Rank>> holders_;  // that the plan named
  Step first_step_{-1};                     // committed in the plan's view; -1: none
  bool has_settled_ = false;                // held_by_ are holders_
  // Roles that came to this state whole, and their new holders, have no window from before.
  Step settles_at_{-1};
};

}  // namespace evermoe
