// A whole protected job in one process, from one seed: the real controller core, members, snapshots,
// logs and recovery over the simulated network, with the hash model or any other trainer, and disasters.
//
//   SimulatedJob job(shape, disasters);
//   const SimulatedOutcome outcome = job.run();
//
// What is simulated: machines, processes, time and the channel between controller, agents and members
// (delays, loss with its ends). What runs is the code that runs in production.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cluster/controller_core.h"
#include "comm/simulated_network.h"
#include "recovery/member.h"
#include "sim/hash_trainer.h"

namespace evermoe {

struct Disaster {
  enum class Kind { kKillWorker, kStopWorker, kKillNode, kKillController, kCut, kCorruptCopies, kPause, kHang };
  Kind kind = Kind::kKillWorker;
  // kPause, kHang: the thread that passes the point stands still there, for kPauseTime or for ever.
  Rank rank;                       // kKillWorker, kStopWorker, kCut, kCorruptCopies (whose copies)
  Rank other;                      // kCut
  Rank only_at{-1};                // kCorruptCopies: the holder that is hit; negative: all
  Node node;                       // kKillNode
  // When: at a time, or when a process of `at_rank` (any rank if negative) passes `point` for the
  // `passing`-th time in the job.
  absl::Duration time = absl::InfiniteDuration();
  std::string point;
  Rank at_rank{-1};
  int64_t passing = 0;

  static constexpr absl::Duration kPauseTime = absl::Milliseconds(40);
};

std::string to_string(const Disaster& disaster);

struct SimulatedShape {
  std::vector<int> lanes = {2, 2};  // of each stage
  int nodes = 4;
  int spares = 1;
  int copies = 1;
  int window = 3;                   // slots
  int period = 0;                   // 0: as the window
  bool changes_windows = false;     // ranks want other windows all the time
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
  int64_t chunk_bytes_max = 16;     // a shard of the hash model has several chunks
  SimulatedNetworkOptions network;
};

struct SimulatedOutcome {
  bool ended = false;      // the controller ended the job: no deadlock, no endless recovery
  bool ok = false;
  std::string reason;      // of the end
  std::string digest;      // of all ranks' final states; empty unless ok
  int64_t samples = 0;     // trained, according to every rank
  std::vector<RecoveryRecord> recoveries;
  std::vector<MemberWork> work;    // by rank, of the last process that played it
  std::vector<std::string> story;  // what the controller told, with times
  std::vector<std::string> contradictions;  // what ranks found that had other bits when computed again
  std::set<std::string> marks;     // rare paths that were really taken
  int64_t log_bytes_peak = 0, snapshot_bytes_peak = 0;
  int processes = 0;       // started in all
  absl::Duration duration = absl::ZeroDuration();
  std::string waiting;     // who waited for what, unless ended
};

class SimulatedJob {
 public:
  SimulatedJob(SimulatedShape shape, std::vector<Disaster> disasters);
  ~SimulatedJob();
  // To be called once.
  SimulatedOutcome run();

 private:
  struct Process;
  class Link;

  void on_event(const ControllerEvent& event);
  void act(const ControllerAction& action);
  // What one process says, and what its agent says of it, comes in the order said; as the controller's relay
  // does, nothing of a process whose successor has been started.
  void to_controller(ControllerEvent event, Process* about = nullptr);
  bool has_successor(const Process& process) const;
  void start_controller();
  void kill_controller();
  void start_worker(const StartWorker& start);
  void come_to_life(Process& process, Transport& transport);
  void thread_ends(Process& process, const absl::Status& status);
  void kill_worker(Rank rank, View since);
  void worker_ended(int64_t index, const std::string& how, bool is_clean);
  void say_joined(Process& process);
  void beat();
  void strike(const Disaster& disaster);
  void pass_point(const char* point);
  void schedule_deadline();
  Process* playing(Rank rank);
  void mark_recoveries();

  SimulatedShape shape_;
  const Topology topology_;
  std::vector<Disaster> disasters_;
  SimulatedNetwork network_;
  SimulatedDisk disk_;
  std::unique_ptr<ControllerCore> controller_;
  int64_t controller_life_ = 0;
  std::vector<bool> node_lives_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::map<std::pair<std::string, int32_t>, int64_t> passings_;  // by point and rank; rank -1: any
  std::map<Rank, std::string> digests_;
  SimulatedOutcome outcome_;
};

}  // namespace evermoe
