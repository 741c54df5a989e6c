// Who counts as lost because nothing is heard of it, or because it has not joined or reported in
// time, with what was measured of the machines: late timers give more time to signs of life
// (lateness.h), starved workers more to everything (starvation.h). Pure.
//
// What is not heard says nothing of who cannot be heard: of a worker only its agent can tell that
// its node still runs, and while the node is in doubt the verdict on it comes first.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "control/controller/controller_interface.h"
#include "control/controller/role_placement.h"
#include "control/controller/role_table.h"
#include "control/controller/stalls/lateness.h"

namespace evermoe {

// Threads: one at a time.
class SilenceLimits {
 public:
  // `options` outlive it.
  explicit SilenceLimits(const ControllerOptions& options)
      : options_(options), own_(options.own_standstill) {}

  // A timer of the controller, or of the node's agent, was so much late.
  void note_own(absl::Duration now, absl::Duration late) { own_.note(now, late); }
  void note(absl::Duration now, Node node, absl::Duration late);

  // How much later than `limit` a sign of life of the node may come: as late as things are run
  // there, or here.
  absl::Duration allowance(absl::Duration now, Node node, absl::Duration limit) const;

  // Of whom there may be a verdict, in order; no look at all roles while there can be none. The
  // time never goes back.
  std::vector<Rank> due(absl::Duration now, const RoleTable& roles);
  // Why the process that plays the role is lost; empty: it is not. One that is due but is to have
  // more time gets a later deadline, and one that nobody asked for anything has none.
  std::string verdict(absl::Duration now, Rank rank, RoleTable& roles,
                      const NodeTable& nodes) const;

 private:
  bool may_be_silent(absl::Duration now, const RoleState& role) const {
    return role.phase() == RoleState::Phase::kJoined && now >= role.heard + options_.silence_max;
  }
  bool is_silent(absl::Duration now, const RoleState& role, const NodeTable& nodes) const;
  absl::Duration silence_limit(absl::Duration now, const RoleState& role) const;
  absl::Duration starved_time(RoleState& late) const;

  const ControllerOptions& options_;
  Lateness own_;
  std::map<Node, Lateness> of_nodes_;
  absl::Duration nobody_silent_before_ = -absl::InfiniteDuration();
};

// What the role says cannot be heard now.
bool is_out_of_sight(absl::Duration now, const RoleState& role, const NodeTable& nodes);
// Nobody can be heard, so nothing is known of the job.
bool are_all_out_of_sight(absl::Duration now, const RoleTable& roles, const NodeTable& nodes);

}  // namespace evermoe
