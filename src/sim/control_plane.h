// A whole simulated control plane: controllers, one after the other, the agents of the nodes, and
// the run that keeps them alive as ProtectedRun does (control/launch/protected_run.h): a controller
// that ends or falls silent is replaced at once; of a node that the controller has given up the run
// ends the agent; when no agent is left, node 0 starts again.
//
// Different from ProtectedRun: it never gives up, however often they end, and `ends_lost_nodes` can
// leave nodes that were given up alone, as where nobody can reach them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "control/controller/stall_adjusted_clock.h"
#include "sim/control_shells.h"

namespace evermoe {

struct ControlPlaneOptions {
  ControllerOptions controller;  // takes_over is set here
  RelayOptions relay;            // life is set here
  AgentCoreOptions agent;        // node and pid are set here
  bool ends_lost_nodes = true;
  absl::Duration start_max = absl::Milliseconds(30);  // from the start of a process until it works
  absl::Duration farewell_max =
      absl::Seconds(1);  // from the end of the job until what is left is killed
};

// Where controllers and the run are.
inline constexpr Machine kHeadMachine{-1};

class ControlPlane final : private StreamEvents {
 public:
  // `tell`: a line of the story. `mark`: a rare path was taken.
  ControlPlane(SimulatedNetwork& time, ControlNetwork& network, const Topology& topology,
               ControlPlaneOptions options, WorkerHost& host, std::function<void(std::string)> tell,
               std::function<void(const std::string&)> mark);
  ~ControlPlane() override;

  void begin();
  // Told by the host; an agent that has ended hears nothing.
  void on_worker_exit(const std::string& agent, pid_t worker, const ExitStatus& exit);

  // ---- faults
  void kill_controller();
  void stop_controller(absl::Duration time);
  void kill_agent(Node node);
  void stop_agent(Node node, absl::Duration time);
  void start_agent(Node node);  // nothing if there is one
  bool is_up(Node node) const { return agents_.contains(node); }

  // All that the controllers have told the run of, in order.
  std::vector<RecoveryRecord> recoveries() const;
  // How the job ended; set once the run has heard it. is_over(): and no process is left.
  const std::optional<EndJob>& end() const { return end_; }
  bool is_over() const { return is_over_; }
  int64_t lives() const { return life_ + 1; }

 private:
  void on_envelope(StreamNumber stream, Envelope envelope) override;
  void on_broken(StreamNumber stream, const std::string& why) override;

  void start_controller();
  void replace_controller(const std::string& how);
  void on_agent_end(Node node, const std::string& how);
  void look();
  void look_after_call();
  void look_after_controller();
  void look_after_nodes();
  void hear(const Welcome& welcome);
  void hear(const JobEvent& tell) { tell_(tell.text); }
  void hear(const NodeLost& lost);
  void hear(const RecoveryNote& note) { notes_[{met_, note.index}] = note.record; }
  void hear(const EndJob& end);
  template <typename Other>
  void hear(const Other&) {}
  void watch(const RelayAction& action);
  void watch(const AgentAction& action);
  absl::Duration draw(absl::Duration max);

  SimulatedNetwork& time_;
  ControlNetwork& network_;
  const Topology& topology_;
  const ControlPlaneOptions options_;
  WorkerHost& host_;
  const std::function<void(std::string)> tell_;
  const std::function<void(const std::string&)> mark_;

  ControlProcess run_;
  std::unique_ptr<SimulatedController> controller_;
  std::map<Node, std::unique_ptr<SimulatedAgent>> agents_;
  std::vector<std::unique_ptr<ControlShell>> ended_;  // until nothing can be on their stacks
  int64_t life_ = -1;
  bool is_opening_ =
      false;  // a view: members have been told to stop, but not by which plan to go on
  pid_t pids_ = 1'000'000;  // of agents; those of workers are smaller

  // As ProtectedRun has them.
  StreamNumber call_;
  bool is_attached_ = false;
  int64_t met_ = -1;  // the life of the controller that is attached to
  absl::Duration retry_at_, heard_, next_beat_, return_at_, farewell_ends_;
  std::map<std::pair<int64_t, int>, RecoveryRecord> notes_;  // by life and index
  std::optional<EndJob> end_;
  bool is_over_ = false;
};

}  // namespace evermoe
