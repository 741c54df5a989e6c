// What follows from the loss of a worker: whether the job goes on, and when the role is started
// again. The rules of single roles (role_restarts.h) and those of the whole job (loss_limits.h),
// applied in one order. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "control/controller/controller_interface.h"
#include "control/controller/loss_limits.h"
#include "control/controller/role_restarts.h"
#include "control/controller/role_table.h"
#include "parallel/topology.h"

namespace evermoe {

struct LossDecision {
  std::vector<std::string> news;  // for people, in order: what waits, or moves, and why
  std::optional<EndJob> end;      // after the news; nullopt: the job goes on
};

// Threads: one at a time.
class LossRules {
 public:
  // The arguments outlive it.
  LossRules(const Topology& topology, const ControllerOptions& options)
      : topology_(topology),
        options_(options),
        limits_(options),
        restarts_(topology.world_size(), options) {}

  // The role is started on `node`.
  void on_start(absl::Duration now, Rank rank, Node node, RoleState& role);
  void on_plan() { limits_.on_plan(); }
  // After its loss, and before it is started again (role_restarts.h).
  void on_unreached(Rank rank) { restarts_.on_unreached(rank); }
  // What has been counted until now does not count again when this role is lost.
  void forgive(RoleState& role) const;
  // The job has come further than ever, or has a newer checkpoint.
  void on_progress();

  struct Loss {
    Rank rank;
    std::string how;
    bool with_node = false;  // its whole node is lost or leaves
  };
  // `furthest`: the newest commit ever.
  LossDecision on_loss(absl::Duration now, const Loss& loss, const RoleState& role,
                       Commit furthest);
  // All have to go back to the durable checkpoint, though no loss may explain it.
  LossDecision on_restart_of_all(absl::Duration now, const std::string& reasons, Commit furthest);

  // The end of the role's back-off.
  absl::Duration start_at(Rank rank) const;
  const RoleRestarts& restarts() const { return restarts_; }

 private:
  void count_failure(absl::Duration now, const std::string& how, Commit furthest,
                     LossDecision& decision);

  const Topology& topology_;
  const ControllerOptions& options_;
  LossLimits limits_;
  RoleRestarts restarts_;
};

}  // namespace evermoe
