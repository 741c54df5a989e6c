// What a controller knows of each role: which process plays it, and how far that process is.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "control/controller/controller_interface.h"
#include "control/controller/stalls/starvation.h"

namespace evermoe {

class RoleState {
 public:
  //   kNone --start()--> kStarting --join()--> kJoined --lose()--> kNone
  enum class Phase { kNone, kStarting, kJoined };
  Phase phase() const { return phase_; }
  absl::Duration deadline() const { return deadline_; }  // for joining or reporting
  Node node;                                             // where its newest process runs or ran
  View since;
  View run;  // of MemberJoined, like the next two
  Commit newest{-1};
  MembershipHistory lanes;
  std::string address;
  absl::Duration heard = absl::ZeroDuration();
  Starvation starvation;
  absl::Duration starved_when_heard;
  StarvedGrant on_deadline;
  std::optional<Report> report;  // of the controller's view
  View entered;
  bool waits = false;  // for others of its stage, by its newest sign of life
  bool finished = false;

  void hear(absl::Duration now) {
    heard = now;
    starved_when_heard = starvation.total();
  }
  // LossLimits::failures() when it was started, or when the newest plan went out.
  int64_t failures_seen = 0;
  int64_t losses_seen = 0;  // likewise LossLimits::counted()

 private:
  friend class RoleTable;  // which finds roles by these
  Phase phase_ = Phase::kNone;
  absl::Duration deadline_ = absl::InfiniteDuration();
};

// What is asked at every message is known without a look at all roles, who may be thousands and
// send as many.
//
// Threads: one at a time.
class RoleTable {
 public:
  explicit RoleTable(int roles);

  RoleState& operator[](Rank rank) { return states_[static_cast<size_t>(rank.value)]; }
  const RoleState& operator[](Rank rank) const { return states_[static_cast<size_t>(rank.value)]; }
  const std::vector<RoleState>& all() const { return states_; }  // by rank
  int size() const { return static_cast<int>(states_.size()); }

  void start(Rank rank, Node node, View since, absl::Duration deadline);
  // False for one that has joined already, and for an old process of a role that is being started
  // again.
  bool may_join(const MemberJoined& event) const;
  void join(const MemberJoined& event, absl::Duration now);
  void lose(Rank rank);
  // The work of all is done: their processes are to end.
  void release_all() { is_released_ = true; }
  bool is_released() const { return is_released_; }
  // Its process has ended after the release.
  void end(Rank rank);
  // It has to join or report by then.
  void ask(Rank rank, absl::Duration until);
  // What it was asked for has until then.
  void extend(Rank rank, absl::Duration until) { set_deadline(rank, until); }
  void note_report(const Report& report);
  // What the agent of the node tells; of processes that do not play a role there any more nothing
  // counts. `period`: of Starvation.
  void note_starved(Node node, const std::vector<StarvedWorker>& workers, int64_t period);

  // This very process has joined and is not lost.
  bool is_present(Rank rank, View since) const;
  bool are_all_joined() const;
  bool have_all_reported() const;
  bool have_all_finished() const;  // and are not released yet
  bool are_all_gone() const;
  int workers_on(Node node) const;
  std::vector<Rank> played_on(Node node) const;
  const std::set<Rank>& without_process() const { return without_process_; }
  // The next one for joining or reporting.
  absl::Duration next_deadline() const;

 private:
  // A role of which it was not true when somebody asked last: probably it still is not.
  using Witness = size_t;
  template <typename Is>
  bool is_true_of_all(Witness& witness, const Is& is) const;
  void set_phase(Rank rank, RoleState::Phase phase);
  void set_deadline(Rank rank, absl::Duration deadline);

  std::vector<RoleState> states_;
  bool is_released_ = false;
  std::set<Rank> without_process_;           // in phase kNone
  std::map<absl::Duration, int> deadlines_;  // how many roles have each, but for infinite ones
  mutable Witness unjoined_ = 0, unreported_ = 0, unfinished_ = 0;
};

}  // namespace evermoe
