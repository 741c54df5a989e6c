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

namespace evermoe {

// Starts, ends and buries them; what is to be done about an end is not decided here. Destruction
// ends all, and with each agent whatever lives of its node.
class ControlChildren {
 public:
  // `options` outlive it. `began`: when the run did; no other run of this machine has an address
  // made of it.
  ControlChildren(const ProtectedRunOptions& options, absl::Duration began);

  // Where every controller listens.
  const std::string& address() const { return address_; }
  // How many controllers there were before the newest.
  int64_t life() const { return life_; }

  absl::Status start_controller();
  absl::Status start_agent(Node node);
  void kill_controller();
  void kill_agent(Node node);
  // That very process runs as the agent of the node.
  bool is_agent(Node node, pid_t pid) const;
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

  const ProtectedRunOptions& options_;
  const absl::Duration began_;
  const std::string local_address_;  // what addresses that only this machine needs begin with
  const std::string address_;
  std::unique_ptr<ControlChild> controller_;
  int64_t life_ = -1;
  std::map<Node, std::unique_ptr<ControlChild>> agents_;
  int64_t agent_starts_ = 0;
};

}  // namespace evermoe
