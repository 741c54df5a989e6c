// The planned move of roles to other nodes while the job trains (docs/moves.md, after TrainMover),
// as a state machine. Pure.
//
//   begin()   kPreparing   a warm process on each new node, which waits for its role
//             kCopying     it is given the copies that the role keeps, beside the training
//             kLeaving     all the roles stop at one state and give that away, too
//             kSwitching   their processes end, the warm ones take the roles in the next view
//             kDone        the next commit
//
// Until the switch a move can be called off, and nothing has changed; from then on whatever fails
// is a loss like any other. One move at a time, of any number of roles.
//
// Threads: one at a time.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control/controller/membership/membership_decision.h"
#include "control/controller/moves/move_record.h"
#include "control/controller/role_placement.h"
#include "control/controller/role_table.h"
#include "parallel/topology.h"

namespace evermoe {

class RoleMoves {
 public:
  // The arguments outlive it.
  RoleMoves(const Topology& topology, const ControllerOptions& options)
      : topology_(topology), options_(options) {}

  bool is_under_way() const { return present_.has_value(); }
  bool is_switching() const { return present_ && record().state == MoveRecord::State::kSwitching; }
  // All there were, of which only the last one changes; changes() grows whenever it does.
  const std::vector<MoveRecord>& records() const { return records_; }
  int64_t changes() const { return changes_; }

  // REQUIRES: none is under way, and choose_moves() (move_request.h) has chosen these.
  void begin(absl::Duration now, std::vector<RoleMove> moves, const RoleTable& roles,
             std::string cause);

  // What is known of the job; the tables outlive it.
  struct JobState {
    const RoleTable& roles;
    const NodeTable& nodes;
    const StandbyBook& standbys;
    bool is_calm = false;  // it trains, in an open view in which nobody is missing
    View view;
    Step newest;  // committed
    absl::Duration median_step;
  };
  // What is to be done now.
  struct Action {
    enum class Kind {
      kNothing,
      kKeepStandbys,  // so many on these nodes
      kPrepare,       // a standby of each new node is to wait for its role
      kLeave,         // these roles are told to, and where to stop, if that is known
      kSwitch,        // these roles are played by new processes on their new nodes, from now on
      kStay           // these roles were told to leave and are not to
    };
    Kind kind = Kind::kNothing;
    std::vector<KeepStandbys> standbys;
    std::vector<RoleMove> roles;
    std::map<Rank, PeerAddress> joiners;  // kLeave: who waits for them
    Step stop_at{-1};                     // likewise
    bool keeps_joiners = false;           // kStay: who waits for the roles still does
    std::string news;                     // for people
  };
  // REQUIRES: one is under way.
  Action next(absl::Duration now, const JobState& job);
  // When to ask again at the latest.
  absl::Duration deadline() const;

  void on_ready(const JoinerReady& ready);
  void on_copies_given(const CopiesGiven& given);
  void on_handed_over(const HandedOver& handed);
  void on_cannot_leave(const CannotLeave& told);
  // A process that was to take a role there has ended: another one is started, a few times.
  void on_standby_failure(Node node, const std::string& how);
  // Its process is lost otherwise than by a switch.
  void on_loss(Rank rank);
  void on_plan(absl::Duration now);
  void on_restored(absl::Duration now, Rank rank);
  // Also after the commit that has ended the switch: each process tells for itself.
  void on_connected(const Connected& connected);
  // The job has ended: one that has not come to its switch is called off. In a switch the roles
  // have left already.
  void on_end();
  // A commit of the open view. Gives what people should hear, if anything.
  std::string on_commit(absl::Duration now, const RoleTable& roles);

 private:
  // Of the one under way.
  struct Present {
    std::vector<RoleMove> moves;
    absl::Duration until;  // prepared, given, or handed over, by then
    View asked_in;  // in which the standbys were asked to wait, and the roles to leave; 0: none
    Step stop_at;   // kLeaving
    std::map<Rank, PeerAddress> joiners;
    std::set<Rank> given;
    std::map<Rank, HandedOver> handed;
    std::map<Node, int> wanted;    // standbys that were ordered
    std::string trouble;           // why it cannot go on
    int attempts = 0;              // to make the roles leave
    int late = 0;                  // of them, where a role heard too late where to stop
    bool is_late = false;          // one has, just now
    int failures = 0;              // of processes that were to take them
    bool has_lost_joiner = false;  // one of those has ended just now
    bool has_lost_role = false;    // the trouble is that one of the roles is lost
  };
  MoveRecord& record() { return records_.back(); }
  const MoveRecord& record() const { return records_.back(); }
  Action prepare(absl::Duration now, const JobState& job);
  Action await_joiners(absl::Duration now, const JobState& job);
  Action copy(absl::Duration now, const JobState& job);
  Action leave(absl::Duration now, const JobState& job);
  Action follow(absl::Duration now, const JobState& job);
  // What makes a move that has come further begin anew, or ends it.
  std::optional<Action> check(absl::Duration now, const JobState& job);
  Action prepare_again(absl::Duration now, const std::string& why);
  Action call_off(const std::string& why);
  template <typename Done>
  bool have_all(const Done& done) const;  // of the roles
  // Of each node where too few are warm: how many are to be, and for which roles.
  std::map<Node, KeepStandbys> lacking_standbys(const JobState& job) const;
  std::string find_trouble(const JobState& job) const;
  absl::Duration leave_max(const JobState& job) const;
  int steps_ahead(const JobState& job) const;
  std::string names() const;
  void set(MoveRecord::State state);

  const Topology& topology_;
  const ControllerOptions& options_;
  std::vector<MoveRecord> records_;
  std::optional<Present> present_;
  int64_t changes_ = 0;
  // Of the newest switch: the view that it ended, and that of the commit after it, once a process
  // has told what it connected for that.
  View switched_from_, connected_in_;
  absl::Duration last_commit_ = absl::InfiniteDuration();
};

}  // namespace evermoe
