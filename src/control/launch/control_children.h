// The controller and the agents of a run, as its child processes.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "control/launch/control_child.h"
#include "control/launch/protected_run.h"
#include "control/wire/private_folder.h"
#include "env/cpu_group.h"

namespace evermoe {

// Where they listen, and what they need for it.
struct ControlPlaces {
  std::unique_ptr<PrivateFolder> folder;  // of the sockets
  std::string secret;  // file with that of the job, or of this run if the job has no keys
  std::shared_ptr<const JobKeys> keys;  // null if all are on this machine
  std::optional<CpuGroupPlace> cpus;    // of nodes whose CPUs are limited
};
// InvalidInput if CPUs are to be limited and cannot be.
absl::StatusOr<ControlPlaces> control_places(const ProtectedRunOptions& options);

// Starts, ends and buries them; what is to be done about an end is not decided here. Destruction
// ends all, and with each agent whatever lives of its node.
class ControlChildren {
 public:
  // `options` outlive it. `began`: when the run did.
  ControlChildren(const ProtectedRunOptions& options, ControlPlaces places, absl::Duration began);

  // Where every controller listens.
  const std::string& address() const { return address_; }
  const std::shared_ptr<const JobKeys>& keys() const { return places_.keys; }
  // Of the newest controller: larger than those of all before it, also of earlier hosts.
  int64_t life() const { return life_; }

  absl::Status start_controller();
  absl::Status start_agent(Node node);
  void kill_controller();
  void kill_agent(Node node);
  // That very process runs as the agent of the node.
  bool is_agent(Node node, pid_t pid) const;
  bool has_agent(Node node) const { return agents_.contains(node); }
  bool has_controller() const { return controller_ != nullptr; }
  bool has_agents() const { return !agents_.empty(); }

  // How the controller ended, once.
  std::optional<std::string> bury_controller();
  struct LostAgent {
    Node node;
    bool is_ok = false;  // exit code 0
    std::string how;
  };
  std::vector<LostAgent> bury_agents();
  void end_all();

  // "controller" and "agent.<node>".
  std::map<std::string, pid_t> pids() const;
  // Readable when one has ended.
  std::vector<int> exit_fds() const;

 private:
  ControlChildOptions child_options(const std::string& command, const std::string& name,
                                    const std::vector<std::string>& flags) const;
  absl::StatusOr<std::string> cpu_group_of(Node node);

  const ProtectedRunOptions& options_;
  const absl::Duration began_;
  const ControlPlaces places_;
  const std::string address_;
  std::unique_ptr<ControlChild> controller_;
  int64_t life_;
  std::map<Node, std::unique_ptr<CpuGroup>> cpu_groups_;  // outlive the agents in them
  std::map<Node, std::unique_ptr<ControlChild>> agents_;
  int64_t agent_starts_ = 0;
};

}  // namespace evermoe
