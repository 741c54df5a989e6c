// What a run tells people of its job, and what it remembers for its outcome.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "control/controller/recovery_book.h"
#include "control/hosting/job_history.h"
#include "control/hosting/lanes_history.h"
#include "control/launch/protected_run.h"
#include "control/launch/save_troubles.h"
#include "control/wire/control_messages.h"
#include "env/files.h"
#include "parallel/topology.h"

namespace evermoe {

class RunStory {
 public:
  // The arguments outlive it.
  RunStory(Files& files, const ProtectedRunOptions& options, RunObserver& observer,
           absl::Duration began);

  void say(const std::string& line) { observer_.on_say(line); }

  // True: a step newer than all before. `now`: by the clock of the run.
  bool hear(absl::Duration now, const WorkerReport& report);
  void hear(const JobEvent& event) { say(event.text); }
  void hear(LanesChanged change);
  void hear(const StragglerFound& found);
  void hear(const SlowLinkFound& found);
  void hear(const WorkerLogTail& words);
  void hear(const RoleProcess& process);
  // `life`: of the controller that notes it.
  void hear(int64_t life, const RecoveryNote& note);
  void hear(int64_t life, const MoveNote& note);
  void on_controller_end(absl::Duration now, const std::string& how);

  // The process that plays the role, if one does.
  std::optional<pid_t> worker(const std::string& role) const;
  // Writes OUT/workers.json, OUT/control.json and OUT/controller.json. The job does not depend on
  // them: that they cannot be written is said once. `address`: of the controller while the job
  // runs.
  void write_processes(const std::map<std::string, pid_t>& control, const std::string& address);
  void forget_workers() { workers_.clear(); }

  // How the job has ended, by the controller's word.
  RunOutcome outcome(const EndJob& end) const;
  // Another host has the job now.
  RunOutcome taken_over(const std::string& why) const;
  // The run has ended without such a word.
  RunOutcome outcome(int exit_code, const std::string& reason) const;

 private:
  RunOutcome history() const;
  void begin_from(const WorkerReport& ready);
  void note_move(const ExpertMove& move);
  void hand_on();
  std::string name_of(Rank rank) const;

  Files& files_;
  const ProtectedRunOptions& options_;
  const absl::Duration began_;
  RunObserver& observer_;
  const Topology topology_;
  RecoveryBook book_;
  const JobHistory former_;               // what the hosts before this one have seen
  std::map<std::string, pid_t> workers_;  // by role
  LanesHistory lanes_;
  std::vector<ExpertMove> moves_;                             // oldest first
  std::map<std::pair<int64_t, int>, MoveRecord> role_moves_;  // by the life of a controller, index
  std::vector<StragglerRecord> stragglers_;                   // oldest first
  std::vector<SlowLinkRecord> slow_links_;                    // likewise
  SaveTroubles save_troubles_;
  bool are_files_broken_ = false;
  bool is_history_broken_ = false;
  Step newest_;
  bool drained_ = false;  // a worker said so
};

}  // namespace evermoe
