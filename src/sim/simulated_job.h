// A whole protected job in one process, from one seed: the real controller with its relay, agents,
// members, snapshots, logs and recovery over simulated networks, with the hash model or any other
// trainer, and faults.
//
//   SimulatedJob job(shape, faults);
//   const SimulatedOutcome outcome = job.run();
//
// What is simulated: machines, processes, time, the network of the members
// (comm/simulated/simulated_network.h) and that of the control plane (control_network.h), and the
// thin shells around the cores (control_shells.h, control_plane.h, worker_line.h). What runs is the
// code that runs in production.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "comm/simulated/simulated_network.h"
#include "recovery/member/member.h"
#include "sim/control_plane.h"
#include "sim/hash_trainer.h"

namespace evermoe {

struct SimulatedFault {
  enum class Kind {
    kKillWorker,
    kStopWorker,
    kCut,
    kCorruptCopies,
    kPause,
    kHang,       // the thread that passes the point stands still there, for kPauseTime or for ever
    kKillNode,   // its agent dies, and with it the node's workers; if it `lasts` so long, a new
                 // agent comes
    kStopAgent,  // for `lasts`, but not its workers
    kStopNode,   // for `lasts`: its agent and its workers
    kKillController,
    kStopController,  // for `lasts`
    // The line between a node and the controller, or those of all nodes if `node` is negative.
    kCutLine,    // both directions, for `lasts`
    kMuteNode,   // nothing comes from the node, for `lasts`
    kDeafNode,   // nothing comes to the node, for `lasts`
    kSlowLine,   // for `lasts`
    kBreakLine,  // both ends live; the controller notices `lasts` later, or the agent if
                 // `agent_is_late`
  };
  Kind kind = Kind::kKillWorker;
  Rank rank;         // kKillWorker, kStopWorker, kCut, kCorruptCopies (whose copies)
  Rank other;        // kCut
  Rank only_at{-1};  // kCorruptCopies: the holder that is hit; negative: all
  Node node;         // from kKillNode on
  absl::Duration lasts;
  bool agent_is_late = false;  // kBreakLine
  // When: at a time, or when a process of `at_rank` (any rank if negative) passes `point` for the
  // `passing`-th time in the job.
  absl::Duration time = absl::InfiniteDuration();
  std::string point;
  Rank at_rank{-1};
  int64_t passing = 0;

  static constexpr absl::Duration kPauseTime = absl::Milliseconds(40);
};

std::string to_string(const SimulatedFault& fault);

struct SimulatedShape {
  std::vector<int> lanes = {2, 2};  // of each stage
  int nodes = 4;
  int spares = 1;
  int copies = 1;
  int window = 3;                // slots
  int period = 0;                // 0: as the window
  bool changes_windows = false;  // ranks want other windows all the time
  OrderingOptions ordering;
  bool is_protected = true;
  bool restart_all_allowed = true;
  double copy_bytes_per_second = 1e6;  // small: captures last as long as steps
  int64_t log_bytes_max = 64 << 10;
  int64_t snapshot_bytes_max = 256 << 10;
  // The trainer of a process and the digest of its final state; empty: the hash model.
  std::function<std::unique_ptr<StageTrainer>(const Topology&, Transport&)> make_trainer;
  std::function<std::string(StageTrainer&)> digest_of;
  HashModelOptions model;
  int64_t chunk_bytes_max = 16;  // a shard of the hash model has several chunks
  SimulatedNetworkOptions network;
  ControlNetworkOptions control;
  bool ends_lost_nodes = true;  // ControlPlaneOptions
};

struct SimulatedOutcome {
  bool ended = false;  // the run heard that the job has ended: no deadlock, no endless recovery
  bool ok = false;
  std::string reason;   // of the end
  std::string digest;   // of all ranks' final states; empty unless ok
  int64_t samples = 0;  // trained, according to every rank
  std::vector<RecoveryRecord> recoveries;
  std::vector<MemberWork> work;    // by rank, of the last process that played it
  std::vector<std::string> story;  // what the controller told, with times
  std::vector<std::string>
      contradictions;                   // what ranks found that had other bits when computed again
  std::vector<std::string> violations;  // of the rules of views: watch_rules()
  std::set<std::string> marks;          // rare paths that were really taken
  int64_t log_bytes_peak = 0, snapshot_bytes_peak = 0;
  int processes = 0;         // workers started in all
  int64_t controllers = 0;   // likewise
  size_t longest_queue = 0;  // of envelopes, in any stream at any moment
  absl::Duration duration = absl::ZeroDuration();
  std::string waiting;  // who waited for what, unless ended
};

class SimulatedJob final : private WorkerHost {
 public:
  SimulatedJob(SimulatedShape shape, std::vector<SimulatedFault> faults);
  ~SimulatedJob() override;
  // To be called once.
  SimulatedOutcome run();

 private:
  struct Process;
  class Line;

  // ---- WorkerHost
  pid_t spawn(const SpawnWorker& worker, Node node, const std::string& agent) override;
  void kill(pid_t pid) override;
  void kill_all_of(const std::string& agent) override;

  void start(Process& process);
  void come_to_life(Process& process, Transport& transport);
  void attach(Process& process);
  void thread_ends(Process& process, const absl::Status& status);
  void kill(Process& process);
  void tell_agent(Process& process);
  MemberJoined describe(const Process& process) const;
  void note_finished(const Process& process);
  void watch_rules(Process& process, const MemberMessage& message);

  void inject(const SimulatedFault& fault);
  void inject_node_fault(const SimulatedFault& fault);
  void stop_node(Node node, absl::Duration time);
  void inject_worker_fault(const SimulatedFault& fault);
  void inject_line_fault(const SimulatedFault& fault);
  void pass_point(const char* point);
  Process* playing(Rank rank);
  void mark_recoveries();
  void tell(const std::string& text);

  SimulatedShape shape_;
  const Topology topology_;
  std::vector<SimulatedFault> faults_;
  SimulatedNetwork network_;
  SimulatedDisk disk_;
  ControlNetwork control_;
  std::vector<std::unique_ptr<Process>> processes_;              // the pid is the index + 1
  std::map<std::pair<std::string, int32_t>, int64_t> passings_;  // by point and rank; rank -1: any
  std::map<Rank, std::string> digests_;
  SimulatedOutcome outcome_;
  ControlPlane plane_;  // last: its agents end their workers
};

}  // namespace evermoe
