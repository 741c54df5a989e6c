// The planned move of roles to other nodes while the job trains (docs/moves.md, after TrainMover),
// as a state machine. Pure.
//
//   begin()   kPreparing   a warm process on each new node
//             kLeaving     the roles hand over their states at the first state of a window
//             kSwitching   their processes end, the warm ones take the roles in the next view
//             kDone        the next commit
//
// Until the switch a move can be called off, and nothing has changed; from then on whatever fails
// is a loss like any other, of roles whose state lies whole with those who keep their copies. One
// move at a time, of any number of roles.
//
// Threads: one at a time.
#pragma once

#include <map>
#include <optional>
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
      kLeave,         // these roles are told to, from the state `not_before` on
      kSwitch,        // these roles are played by new processes on their new nodes, from now on
      kStay           // these roles were told to leave and are not to
    };
    Kind kind = Kind::kNothing;
    std::vector<KeepStandbys> standbys;
    std::vector<RoleMove> roles;
    Step not_before;
    std::string news;  // for people
  };
  // REQUIRES: one is under way.
  Action next(absl::Duration now, const JobState& job);
  // When to ask again at the latest.
  absl::Duration deadline() const;

  void on_handed_over(const HandedOver& handed);
  // A process that was to take a role there has ended: another one is started, a few times.
  void on_standby_failure(Node node, const std::string& how);
  // Its process is lost otherwise than by a switch.
  void on_loss(Rank rank);
  void on_plan(absl::Duration now);
  void on_restored(absl::Duration now, Rank rank);
  // The job has ended: one that has not come to its switch is called off. In a switch the roles
  // have left already.
  void on_end();
  // A commit of the open view. Gives what people should hear, if anything.
  std::string on_commit(absl::Duration now, const RoleTable& roles);

 private:
  // Of the one under way.
  struct Present {
    std::vector<RoleMove> moves;
    absl::Duration until;  // prepared, or handed over, by then
    View asked_in;         // kLeaving: the view of the orders
    Step not_before;       // likewise: theirs
    std::map<Rank, HandedOver> handed;
    std::map<Node, int> wanted;  // standbys that were ordered
    std::string trouble;         // why it cannot go on
    int attempts = 0;            // to make the roles leave
    int failures = 0;            // of processes that were to take them
  };
  MoveRecord& record() { return records_.back(); }
  const MoveRecord& record() const { return records_.back(); }
  Action prepare(absl::Duration now, const JobState& job);
  Action leave(absl::Duration now, const JobState& job);
  Action follow(absl::Duration now, const JobState& job);
  void prepare_again(absl::Duration now);
  Action call_off(const std::string& why);
  // How many are to be warm on each node where too few are.
  std::map<Node, int> lacking_standbys(const JobState& job) const;
  std::string find_trouble(const JobState& job) const;
  absl::Duration leave_max(const JobState& job) const;
  std::string names() const;
  void set(MoveRecord::State state);

  const Topology& topology_;
  const ControllerOptions& options_;
  std::vector<MoveRecord> records_;
  std::optional<Present> present_;
  int64_t changes_ = 0;
  absl::Duration last_commit_ = absl::InfiniteDuration();
};

}  // namespace evermoe
