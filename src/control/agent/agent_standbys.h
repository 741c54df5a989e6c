// The standbys of a node: processes that play no role, have computed steps for nothing so
// that everything in them is warm (train/sandbox/), and take a role when this node is to play one.
// Pure: what happens in, actions out.
//
//   keep() --SpawnStandby--> warming --StandbyWarm--> warm --take()--> a worker (agent_workers.h)
//   a worker whose role has moved away --adopt()-----> warm
//
// One that is warm may wait for a certain role, and is given what that has (JoinerWanted).
//
// Threads: one at a time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "control/agent/agent_actions.h"

namespace evermoe {

class AgentStandbys {
 public:
  // Their numbers are negative: those of workers, which share a table of processes with them, are
  // positive.
  static bool is_standby(int64_t number) { return number < 0; }

  // So many are to live here: those that are missing begin, and warm up for these roles; none: for
  // every role.
  AgentActions keep(int count, const std::vector<Rank>& roles);
  void on_spawned(int64_t number, pid_t pid);
  // For a worker that is to become one.
  int64_t next_number() { return --last_number_; }
  // It has become this one, says so there, and will say that it is warm.
  void adopt(int64_t number, pid_t pid, StreamNumber line, std::vector<Rank> warm_for) {
    standbys_[number] = {pid, line, 0, std::move(warm_for)};
  }
  // A process says hello there; false: none of them that is not attached has this pid.
  bool attach(StreamNumber stream, pid_t pid);
  // Whose line that is; nullopt: no standby's.
  std::optional<int64_t> speaking_on(StreamNumber stream) const;
  void on_warm(int64_t number);
  // Whom nobody can give a role any more ends.
  AgentActions on_broken(StreamNumber stream);
  // False: it was none of them.
  bool on_exit(int64_t number) { return standbys_.erase(number) > 0; }

  // One that is warm and waits for no role waits for this one, and is told so; instead of the one
  // that did, if there was one. Or nobody does any more.
  AgentActions on_wanted(const JoinerWanted& wanted);
  // No role is waited for any more: the controller that wanted it is gone.
  AgentActions forget_wanted();

  // Who waits for this role plays it from now on, or the one that has been warm for longest, of
  // those that wait for none first; nullopt: none is warm.
  struct Taken {
    int64_t number = 0;
    pid_t pid = 0;
    StreamNumber line;
    std::vector<Rank> warm_for = {};  // StandbysKept::warm_for, with the role
  };
  std::optional<Taken> take(Rank role);
  // All end, for they are of another job, or this one is over.
  AgentActions end_all() const;

  StandbysKept kept() const;  // without its node
  bool is_empty() const { return standbys_.empty(); }

 private:
  struct Standby {
    pid_t pid = 0;
    std::optional<StreamNumber> line;
    int64_t warm = 0;                 // the how many-th that has become warm; 0: it is not
    std::vector<Rank> warm_for = {};  // StandbysKept::warm_for
    std::optional<JoinerWanted> waits_for = {};
    bool can_play() const { return warm > 0 && line.has_value(); }
  };
  // Of those that can play a role the first one by `order`; end() if there is none.
  template <typename Order>
  std::map<int64_t, Standby>::iterator first_by(const Order& order);
  AgentActions let_go(Standby& standby);
  std::map<int64_t, Standby> standbys_;  // by number
  int64_t last_number_ = 0;
  int64_t last_warm_ = 0;
};

}  // namespace evermoe
