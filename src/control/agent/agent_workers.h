// The worker processes of a node: which live, on which streams they speak, and which are to be
// started when others have ended. Pure: what happens in, actions out.
//
// Invariant: at most one process per role runs here; the next one waits until the former has ended.
//
// Threads: one at a time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "control/agent/agent_actions.h"

namespace evermoe {

struct AgentWorker {
  Rank rank;
  View since;
  pid_t pid = 0;
  std::optional<StreamNumber> stream;
  bool is_registered = false;  // with the present controller
  bool is_asked_to_drain = false;
  bool was_standby = false;          // before it was given its role
  std::vector<Rank> warm_for = {};   // as a standby's (StandbysKept)
  absl::Duration starved_before;     // it was given its role
  bool is_disowned = false;          // no controller wants to hear of it any more
  View entered;                      // MemberAlive::entered, as it said last
  bool waits = false;                // likewise
  std::vector<StepTime> step_times;  // that the controller has not been told yet
  std::vector<LinkTime> link_times;  // likewise
  // A sign of life that the controller has not been told yet.
  bool has_given_sign = false;
  std::optional<WorkerReport> failed;
  // The standby that it is to become, by when; 0: none.
  int64_t becomes_standby = 0;
  absl::Duration relieved_by = absl::InfiniteDuration();
};

class AgentWorkers {
 public:
  using Entry = std::pair<const int64_t, AgentWorker>;  // by start
  struct Waiting {
    int64_t start = 0;
    StartWorker order;
  };

  // Process `start` of the role, for the run of that term: now, or when the former ones of the
  // role, which are killed, have ended.
  AgentActions start(int64_t start, const StartWorker& order, const FolderTerm& term);
  // That one of the role has ended: whom that lets start.
  AgentActions start_waiting(Rank rank, const FolderTerm& term);
  // It ends, or is not started. Who forgets its role plays nothing, and is left alone.
  AgentActions kill(int64_t start, Rank rank);
  // It forgets its role, and becomes the standby of that number: take_relieved(). False: it cannot
  // be told so.
  bool relieve(absl::Duration now, int64_t start, int64_t standby, AgentActions& actions);
  // A process says hello there as that standby; nullopt: it is none of those that were to.
  std::optional<Entry> take_relieved(pid_t pid);
  // Those that were to and have not, though it is time, are killed.
  AgentActions end_late(absl::Duration now);
  absl::Duration next_due() const;
  int relieved() const;
  // All end, and nobody wants to hear of them.
  AgentActions disown_all();
  // All finish their step, save and end, and so does who attaches later.
  AgentActions drain();
  bool is_draining() const { return is_draining_; }

  // A process says hello there. nullopt: no worker that is not attached has this pid.
  std::optional<AgentActions> attach(StreamNumber stream, pid_t pid);
  void on_broken(StreamNumber stream);
  // Another controller is to hear of them, but for those that play nothing any more.
  void forget_registrations();
  // One that has not attached yet is not waited for: it knows nothing that a controller has to
  // know.
  bool have_registered() const;

  AgentWorker* find(int64_t start);  // nullptr, as below: there is none
  Entry* speaking_on(StreamNumber stream);
  // What it was; nullopt: there was none.
  std::optional<AgentWorker> remove(int64_t start);
  // To the process that is meant, or to nobody.
  AgentActions hand_on(int64_t start, const SendOrder& order) const;
  // Who has given a sign of life since the last call, and is to be heard of.
  std::vector<AliveWorker> take_signs();
  // One of them tells of a commit, which is the whole job's. False: the present controller has been
  // told already.
  bool note_commit(const Progress& progress);
  // How long the main threads of those that somebody wants to hear of got no processor.
  std::vector<StarvedWorker> starved(const std::function<absl::Duration(pid_t)>& measure) const;

  // To be started when the former process of the role, which is killed, has ended.
  const std::map<Rank, Waiting>& waiting() const { return waiting_; }

  bool is_empty() const { return workers_.empty(); }
  size_t size() const { return workers_.size(); }
  auto begin() const { return workers_.begin(); }
  auto end() const { return workers_.end(); }

 private:
  bool plays(Rank rank) const;
  AgentActions spawn(int64_t start, const StartWorker& order, const FolderTerm& term);
  static AgentActions ask_to_drain(Entry& worker);

  std::map<int64_t, AgentWorker> workers_;
  std::map<Rank, Waiting> waiting_;
  std::optional<Progress> told_;  // the newest that the present controller was told
  bool is_draining_ = false;
};

}  // namespace evermoe
