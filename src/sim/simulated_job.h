// A whole protected job in one process, from one seed: the real controller with its relay, agents,
// members, snapshots, logs and recovery over simulated networks, with the hash model or any other
// trainer, and faults.
//
//   SimulatedJob job(shape, faults);
//   const SimulatedOutcome outcome = job.run();
//
// What is simulated: machines, processes, time, the network of the members
// (comm/simulated/simulated_network.h) and that of the control plane (control_network.h), and the
// thin shells around the cores (control_shells.h, control_plane.h, worker_line.h,
// simulated_workers.h). What runs is the code that runs in production.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "comm/simulated/simulated_network.h"
#include "sim/control_plane.h"
#include "sim/hash/hash_trainer.h"
#include "sim/simulated_fault.h"
#include "sim/simulated_faults.h"
#include "sim/simulated_shape.h"
#include "sim/workers/simulated_workers.h"

namespace evermoe {

struct SimulatedOutcome {
  bool ended = false;  // the run heard that the job has ended: no deadlock, no endless recovery
  bool ok = false;
  std::string reason;                    // of the end
  std::string digest;                    // of all ranks' final states; empty unless ok
  int64_t steps = 0, samples = 0;        // trained, according to every rank
  MembershipHistory membership;          // who rested from which state on, as members have it
  std::vector<LanesChanged> told_lanes;  // on which lanes they trained, as the run has it
  std::vector<RecoveryRecord> recoveries;
  std::vector<MoveRecord> moves;
  std::vector<StragglerFound> stragglers;
  std::vector<SlowLinkFound> slow_links;
  std::vector<MemberWork> work;    // by rank, of the last process that played it
  std::vector<std::string> story;  // what the controller told, with times
  std::vector<std::string>
      contradictions;  // what ranks found that had other bits when computed again
  std::vector<std::string>
      violations;  // of the rules of views and of hosts (view_rules.h, control_plane.h)
  std::set<std::string> marks;  // rare paths that were really taken
  PointPassings passings;
  // Of checkpoints with a few experts: the restarts whose states training went on from, and what
  // they have cost the experts, in tokens.
  std::vector<PartialRestartPoint> partial_restarts;
  int64_t lost_tokens = 0;
  int64_t log_bytes_peak = 0, snapshot_bytes_peak = 0;
  size_t records_left = 0;   // of commits, by the process that had most in its end
  int processes = 0;         // workers started in all
  int64_t controllers = 0;   // likewise
  size_t longest_queue = 0;  // of envelopes, in any stream at any moment
  absl::Duration duration = absl::ZeroDuration();
  std::string waiting;  // who waited for what, unless ended
};

class SimulatedJob {
 public:
  SimulatedJob(SimulatedShape shape, std::vector<SimulatedFault> faults);
  ~SimulatedJob();
  // To be called once.
  SimulatedOutcome run();

 private:
  void tell(const std::string& text);
  ControlPlane::Surroundings around_plane();
  void add_findings();
  void add_end();
  std::string final_digest(Rank rank) const;

  SimulatedShape shape_;
  const Topology topology_;
  SimulatedNetwork network_;
  SimulatedDisk disk_;
  ControlNetwork control_;
  SimulatedOutcome outcome_;
  SimulatedWorkers workers_;
  ControlPlane plane_;  // after the workers: its agents end them
  SimulatedFaults faults_;
};

}  // namespace evermoe
