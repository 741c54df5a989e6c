// How often each role was started again, and what follows from it: a role that keeps ending soon
// after its start waits before the next one, longer each time, and avoids the node where it ended.
// Pure.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "control/controller/controller_interface.h"

namespace evermoe {

class RoleRestarts {
 public:
  // `options` outlive it.
  RoleRestarts(int roles, const ControllerOptions& options)
      : options_(options), roles_(static_cast<size_t>(roles)) {}

  void on_start(absl::Duration now, Rank rank, Node node);
  // The job has come further than ever, or has a newer checkpoint.
  void on_progress() { ++progress_; }
  // The role is lost; `with_node`: with its whole node, which says nothing about the two together.
  void on_loss(absl::Duration now, Rank rank, bool with_node);
  // It is lost because the workers of its node and those of several others do not reach each other.
  void on_unreached(Rank rank);

  // In a row without progress, the loss at hand included.
  int losses(Rank rank) const;
  // The back-off of the role ends then.
  absl::Duration start_at(Rank rank) const { return at(rank).start_at; }
  // How often in a row the role ended on that node soon after its start: before the job made any
  // progress, or, in the place of a lost process, within ControllerOptions::settles_after.
  int early_ends(Rank rank, Node node) const;
  bool keeps_ending(Rank rank, Node node) const { return early_ends(rank, node) >= kEarlyEndsMax; }
  // And on no other one: the trouble is the node's rather than its own.
  bool keeps_ending_only(Rank rank, Node node) const;
  bool does_any_keep_ending(Node node) const;
  // It keeps ending there, or was not reached there: it is to be started elsewhere, if there is
  // room.
  bool avoids(Rank rank, Node node) const {
    return keeps_ending(rank, node) || at(rank).unreached.contains(node);
  }
  // Some role does.
  bool is_avoided(Node node) const;
  // Why, and for how long it waits; empty if it does neither.
  std::string reason(absl::Duration now, Rank rank) const;

  // The first early end may be bad luck, such as another failure in the middle of a recovery.
  static constexpr int kEarlyEndsMax = 2;

 private:
  struct Role {
    Node node;  // of the newest process that was started here
    absl::Duration started = -absl::InfiniteDuration();
    int64_t progress_at_start = -1;  // a former controller has started it, long ago for all we know
    int64_t progress_at_loss = -1;   // none yet
    bool is_replacement = false;     // the process that was started then
    int losses = 0;                  // since that progress
    std::map<Node, int> early_ends;
    std::set<Node> unreached;  // where it was not
    int early_in_row = 0;      // on all nodes
    absl::Duration start_at = -absl::InfiniteDuration();
  };
  Role& at(Rank rank) { return roles_[static_cast<size_t>(rank.value)]; }
  const Role& at(Rank rank) const { return roles_[static_cast<size_t>(rank.value)]; }

  const ControllerOptions& options_;
  int64_t progress_ = 0;
  std::vector<Role> roles_;
};

}  // namespace evermoe
