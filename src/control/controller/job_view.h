// The view of a job as its controller has it: its number, whether its plan is out, and in which
// view each stage last joined. Pure.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "control/controller/controller_interface.h"
#include "control/controller/role_table.h"
#include "parallel/failure_domains.h"
#include "parallel/topology.h"
#include "recovery/plan/former_holders.h"
#include "recovery/plan/make_plan.h"

namespace evermoe {

class JobView {
 public:
  // The arguments outlive it.
  JobView(const Topology& topology, const ControllerOptions& options)
      : topology_(topology),
        options_(options),
        stage_epochs_(static_cast<size_t>(topology.stages())) {}

  View number() const { return number_; }
  bool is_open() const { return is_open_; }
  View stage_epoch(Rank rank) const { return stage_epochs_[stage_of(rank)]; }

  // A member has come to life or has found this controller. A newer view that it knows of, and one
  // of ours that it has not entered, is an unfinished one of a former controller: the next one
  // settles it.
  void on_joined(const MemberJoined& event);
  // What a process has states of, or the job.
  struct Past {
    View run;     // in which all began anew from a durable checkpoint; 0: not known
    Step to{-1};  // how far it is known
    MembershipHistory lanes = {};
  };
  // Not of the job's: the one or the other has been begun anew since, or two hosts have had the job
  // for a while, and trained on other lanes. Its states may be further than the job is.
  bool is_of_other_run(const Past& past) const;
  // While a controller takes over: a view is open if all members that have been found are in it.
  // One may lack its plan, because the controller before died while that went out.
  void adopt(const MemberJoined& event);
  // Newer than all before; not open until its plan is out.
  void open_next();
  View next() const { return View(std::max(number_, options_.views_after).value + 1); }
  // In the next plan all go back, for this reason: to the newest window in memory, if all ranks'
  // are there, or else, and with restart_next() at once, to a durable checkpoint.
  void go_back_next(const std::string& reason) { go_back_reason_ = reason; }
  void restart_next(const std::string& reason) { restart_reason_ = reason; }
  // No usable copy is where the plan in force says. If it names whole states all go back to
  // windows, which may be there, else to a durable checkpoint.
  void leave_copies_next(const std::string& reason) {
    (renews_ ? go_back_reason_ : restart_reason_) = reason;
  }

  // REQUIRES: all roles have reported for this view. Uses up the reasons.
  // `wanted`: PlanInputs.
  Plan plan(const RoleTable& roles, const CopyHolders& holders,
            std::optional<MembershipChange> wanted);
  void open(const Plan& plan);

 private:
  void learn(const MemberJoined& event);
  size_t stage_of(Rank rank) const { return static_cast<size_t>(topology_.role_of(rank).stage); }

  const Topology& topology_;
  const ControllerOptions& options_;
  View number_;
  bool is_open_ = false;
  bool renews_ = false;             // the newest plan
  std::map<Rank, View> adopted_;    // in which view they are; 0: in none
  std::map<View, int> adopted_in_;  // so many are
  std::vector<View> stage_epochs_;
  Past past_;
  View past_told_in_;  // by a member that had come to this view
  bool has_planned_ = false;
  std::string go_back_reason_, restart_reason_;  // empty: they need not
  FormerHolders former_holders_;
};

}  // namespace evermoe
