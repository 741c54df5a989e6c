// On which lanes a simulated job has trained from which state on, as its members say. Two hosts may
// have the job for a while: what the former one does counts as far as the other one has not come,
// for whoever finds its members may go on from there. Pure.
#pragma once

#include <utility>

#include "parallel/membership.h"
#include "recovery/protocol/messages.h"

namespace evermoe {

class LanesRecord {
 public:
  // A member in the plan's view has committed the state at `step`.
  void on_commit(const Plan& plan, Step step);
  // All have gone on from a durable state, by this plan.
  void on_resumed(const Plan& plan, Step base);
  // The job has been begun anew by another host since.
  bool is_given_up(const Plan& plan) const { return plan.view < beginning_; }

  const MembershipHistory& history() const { return history_; }

 private:
  void forget_changes_of_the_former_host(const Plan& plan, Step step);

  MembershipHistory history_;
  View beginning_;                // in which all have gone on from a durable state
  Step base_;                     // that state
  std::pair<View, Step> newest_;  // how far the members of the newest view have come
};

}  // namespace evermoe
