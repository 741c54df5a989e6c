// A whole simulated control plane: the hosts of the job, the agents of the nodes, and what keeps
// them alive. Two set-ups:
//
// * One machine apart hosts, as under `evermoe run`: of a node that the controller has given up the
//   run ends the agent. Another host may take the job over, with the next term of the folder: for a
//   while two controllers live, and each agent follows the one that it is attached to until it
//   meets the newer one.
// * With a store every node stands for election (control/store/election_core.h), and whoever wins
//   takes the next term and hosts, as NodeHosting does (control/hosting/node_hosting.h). A host
//   that is no longer elected leaves the job; one that was stopped meanwhile finds out when it
//   goes on. Nobody ends nodes. The host of a node that leaves the job leaves it, too.
//
// When no agent is left, node 0 starts again.
//
// Different from ProtectedRun: it never gives up, however often processes end, and
// `ends_lost_nodes` can leave nodes that were given up alone, as where nobody can reach them.
//
// Rules of hosts, watched from outside: at most one node believes that it is elected, and the
// store agrees; no agent does anything for a term after it has met a newer one; a host that can
// look who has the folder leaves soon after another one has; nobody begins to host a job that has
// ended.
//
// And of the network between agents: no node is left out for long after all lines are whole again.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/control_shells.h"
#include "sim/hosts/simulated_candidate.h"
#include "sim/hosts/simulated_folder.h"
#include "sim/hosts/simulated_host.h"

namespace evermoe {

struct ControlPlaneOptions {
  ControllerOptions controller;
  RelayOptions relay;
  AgentCoreOptions agent;  // node and pid are set here
  bool ends_lost_nodes = true;
  bool has_store = false;
  SimulatedCandidate::Options candidate;  // address is set here
  SimulatedStoreOptions store;
  absl::Duration term_check = absl::Milliseconds(100);
  // Before a node that could not begin to host stands for election again.
  absl::Duration host_pause = absl::Milliseconds(100);
  // A node that joins so late; negative: none.
  Node late_node{-1};
  absl::Duration late = absl::ZeroDuration();
  absl::Duration start_max = absl::Milliseconds(30);  // from the start of a process until it works
  absl::Duration farewell_max =
      absl::Seconds(1);  // from the end of the job until what is left is killed
};

// Where the host and the run are, without a store.
inline constexpr Machine kHeadMachine{-1};

class ControlPlane final {
 public:
  struct Surroundings {
    std::function<void(const std::string&)> tell;  // a line of the story
    std::function<void(const std::string&)> mark;  // a rare path was taken
    std::function<bool()> is_disk_full;            // no term can be taken
    std::function<bool()> has_final_state;         // on disk: then there is nothing to host
  };
  ControlPlane(SimulatedNetwork& time, ControlNetwork& network, const Topology& topology,
               ControlPlaneOptions options, WorkerHost& workers, Surroundings surroundings);
  ~ControlPlane();

  void begin();
  // Told by the workers' host; an agent that has ended hears nothing.
  void on_worker_exit(const std::string& agent, pid_t worker, const ExitStatus& exit);

  // ---- faults
  void kill_controller();
  void stop_controller(absl::Duration time);
  // No fault: the host asks its controller.
  void want(const MoveWanted& wish);
  void drain();  // likewise
  // Another host gets the job. Without a store its predecessor does not know it for `time`; with
  // one the store has forgotten who was elected.
  void change_host(absl::Duration time);
  // Its agent, workers and host.
  void kill_node(Node node);
  struct Standstill {
    absl::Duration time;
    bool with_controller = false;  // the host's controller on that machine, too
    bool with_clock = false;       // the machine's clock stands still meanwhile
  };
  void stop_node(Node node, const Standstill& how);
  void start_node(Node node);  // nothing if there is one
  void make_unfit(Node node, absl::Duration time);
  // Its machine is taken away after `time`, or never if that is 0; its agent says so.
  void give_notice(Node node, absl::Duration time);
  bool is_up(Node node) const { return agents_.contains(node); }
  // With a store: where the host is that acts.
  std::optional<Node> host_node();
  SimulatedStore* store() { return store_.get(); }  // null: none

  // All that the controllers have told their hosts, in order.
  std::vector<RecoveryRecord> recoveries() const;
  std::vector<MoveRecord> moves() const;
  std::vector<StragglerFound> stragglers() const;
  std::vector<SlowLinkFound> slow_links() const;
  // Who trained, as the newest host would say.
  std::vector<LanesChanged> lanes() const;
  // How the job ended; set once a host has heard it. is_over(): and no process is left.
  const std::optional<EndJob>& end() const { return end_; }
  bool is_over() const { return is_over_; }
  int64_t controllers() const;
  // One line for each rule of hosts that was broken.
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  static constexpr char kControllerAddress[] = "controller";  // without a store

  absl::Status begin_host(Machine machine, const std::string& address);
  SimulatedHostOptions host_options(Machine machine, const std::string& address,
                                    const FolderTerm& term) const;
  SimulatedHost::Events host_events(Machine machine, const FolderTerm& term);
  SimulatedHost* host();  // that acts, of the newest term; null: none
  SimulatedHost* session_on(Node node);
  void tell_agent(Node node, const std::string& host);
  void on_left(Machine machine);
  void try_to_host(Node node);
  void end_hosting(Node node, const std::string& why);
  void join_late();
  void make_fit(Node node, pid_t agent);
  void start_candidate(Node node);
  void end_candidate(Node node);
  void on_agent_end(Node node, const std::string& how);
  void on_end(const EndJob& end);
  void look();
  void look_after_nodes();
  void check_election();
  void look_after_terms();
  void look_after_network();
  std::optional<std::string> end_in_folder();
  void mark_end(const FolderTerm& term, const EndJob& end);
  void hand_on(const FolderTerm& term, const std::vector<LanesChanged>& lanes);
  void hear(const NodeLost& lost);
  void watch(const AgentAction& action);
  absl::Duration draw(absl::Duration max);

  SimulatedNetwork& time_;
  ControlNetwork& network_;
  const Topology& topology_;
  const ControlPlaneOptions options_;
  WorkerHost& workers_;
  const Surroundings around_;

  SimulatedFolder folder_;
  std::vector<LanesChanged> handed_on_;  // by hosts to those after them, in the folder
  std::unique_ptr<SimulatedStore> store_;
  std::vector<std::unique_ptr<SimulatedHost>> hosts_;  // all there were, by term
  std::map<Node, std::unique_ptr<SimulatedAgent>> agents_;
  std::map<Node, std::unique_ptr<SimulatedCandidate>> candidates_;
  std::set<Node> without_host_;  // whose agents have not been told that nobody hosts
  std::vector<std::unique_ptr<ControlShell>> ended_;  // until nothing can be on their stacks
  pid_t pids_ = 1'000'000;                            // of agents; those of workers are smaller
  absl::Duration return_at_, farewell_ends_;
  // The election's rule does not hold before: a store forgot, or a clock stood still.
  absl::Duration excused_until_;
  std::optional<EndJob> end_;
  bool is_end_written_ = true;                       // if it was to be
  std::map<size_t, absl::Duration> outlived_since_;  // of older hosts: when they could look last
  std::set<Node> left_out_;                          // for too long
  bool is_over_ = false;
  std::vector<std::string> violations_;
};

}  // namespace evermoe
