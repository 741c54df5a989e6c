// What a controller remembers for operators besides what it decides by. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "control/controller/controller_core.h"
#include "control/controller/relay/role_processes.h"
#include "control/controller/status/job_status.h"
#include "control/wire/worker_report.h"

namespace evermoe {

class StatusBook {
 public:
  explicit StatusBook(absl::Duration now) : began_(now) {}

  void on_agent(Node node, const std::string& host) { agents_[node].host = host; }
  // Its line is up and something was heard of it.
  void on_sign(Node node, absl::Duration now) { agents_[node].heard = now; }
  void on_commit(Commit newest);
  void on_report(const WorkerReport& report);

  // All but life, term and whether the job drains. `nodes`: spares too.
  JobStatus status(absl::Duration now, const ControllerCore& core, const RoleProcesses& processes,
                   const Topology& topology, int nodes) const;

 private:
  NodeStatus node(absl::Duration now, const ControllerCore& core, Node node) const;
  double ettr(const JobStatus& status) const;

  struct Agent {
    std::string host;
    absl::Duration heard;
  };
  const absl::Duration began_;
  std::map<Node, Agent> agents_;  // that were ever met
  std::optional<Step> first_;     // the first step that was known
  Step durable_{-1};
  std::optional<ExpertMove> experts_;
};

}  // namespace evermoe
