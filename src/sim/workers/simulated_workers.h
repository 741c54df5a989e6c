// The worker processes of a simulated job: the real member with the trainer of the job's shape, two
// threads each, and its line to the agent.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "comm/simulated/simulated_network.h"
#include "recovery/member/member.h"
#include "sim/control_shells.h"
#include "sim/lanes/lanes_record.h"
#include "sim/simulated_shape.h"
#include "sim/workers/view_rules.h"

namespace evermoe {

// What became of them.
struct WorkerFindings {
  int processes = 0;                    // started in all
  std::vector<MemberWork> work;         // by rank, of the last process that played it
  std::map<Rank, std::string> digests;  // of the final states
  int64_t steps = 0, samples = 0;       // trained, according to every rank
  std::vector<std::string> contradictions;
  std::set<std::string> marks;
  int64_t log_bytes_peak = 0, snapshot_bytes_peak = 0;
  size_t records_left = 0;  // by the process that had most in its end
};

class SimulatedWorkers final : public WorkerHost {
 public:
  // Told of the end of every process; `agent`: where its agent listens.
  using OnExit = std::function<void(const std::string& agent, pid_t, const ExitStatus&)>;
  // The arguments outlive it; the shape names a trainer.
  SimulatedWorkers(SimulatedNetwork& network, ControlNetwork& control, const Topology& topology,
                   const SimulatedShape& shape, OnExit on_exit);
  ~SimulatedWorkers() override;

  // ---- WorkerHost
  pid_t spawn(const SpawnWorker& worker, Node node, const std::string& agent) override;
  pid_t spawn_standby(Node node, const std::string& agent) override;
  void drain(pid_t pid) override;
  void kill(pid_t pid) override;
  void kill_all_of(const std::string& agent) override;

  // ---- faults; processes that do not live are left alone
  std::optional<pid_t> playing(Rank rank) const;
  std::optional<Node> node_of(Rank rank) const;  // where that process is
  std::optional<Rank> running() const;           // whose thread runs now
  // That thread has computed a step, which takes the time that the shape says.
  void compute();
  void stop(pid_t pid);
  // What it computes takes so many times as long from now on.
  void slow_down(pid_t pid, double factor);
  // All of the node that run: for `time`, then `on_back` for each one that lives.
  void stop_all_on(Node node, absl::Duration time, std::function<void()> on_back);
  // SimulatedFault::Kind::kDoomRole
  void doom(Rank rank, Node node);
  // One that waits on the node, if there is one.
  void kill_standby(Node node);
  void cut(pid_t a, pid_t b);
  // The copies of `owner` that others hold, or that only the holder `only_at` does.
  void corrupt_copies(Rank owner, std::optional<Rank> only_at);

  const WorkerFindings& found() const { return found_; }
  // Who rested from which state on.
  const MembershipHistory& lanes() const { return lanes_.history(); }
  const std::vector<std::string>& violations() const { return rules_.violations(); }

 private:
  struct Process;
  class Line;
  class StandbyLine;
  struct Waiting;

  Process& add_process(Node node, const std::string& agent);
  void start(Process& process);
  void note_start(Process& process, ProcessNumber number);
  void train(Process& process, Transport& inner);
  void serve(Process& process, Transport& inner);
  void take_role(Process& standby, const TakeRole& role);
  void wait_for_role(Process& standby, const JoinerWanted& wanted);
  void wait_in_seat(Process& standby, Waiting& waiting, Transport& inner);
  void take_over(Process& standby, Waiting& waiting);
  void stop_waiting(Process& standby);
  void become_standby(Process& process);
  void come_to_life(Process& process, Transport& inner);
  static MemberObserver observer(Process& process);
  void attach(Process& process);
  void thread_ends(Process& process, const absl::Status& status);
  void on_end(Process& process);
  void kill(Process& process);
  void give_order(Process& process, ControllerMessage order);
  void tell_agent(Process& process);
  MemberJoined describe(const Process& process) const;
  void watch(Process& process, const MemberMessage& message);
  void note_finished(const Process& process);
  bool lives(const Process& process) const;
  Process* running_process() const;  // null: none that lives
  Process& process(pid_t pid) const { return *processes_[static_cast<size_t>(pid - 1)]; }

  SimulatedNetwork& network_;
  ControlNetwork& control_;
  const Topology& topology_;
  const SimulatedShape& shape_;
  const OnExit on_exit_;
  ViewRules rules_;
  WorkerFindings found_;
  LanesRecord lanes_;
  std::vector<std::unique_ptr<Process>> processes_;  // the pid is the index + 1
  std::set<std::pair<Rank, Node>> doomed_;           // kDoomRole
};

}  // namespace evermoe
