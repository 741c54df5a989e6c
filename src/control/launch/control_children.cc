#include "control/launch/control_children.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "control/launch/control_processes.h"

namespace evermoe {
namespace {

// A name that vanishes with the process that listens there, so that the next controller can take
// it.
std::string address_at(absl::Duration now) {
  return absl::StrCat("unix-abstract:evermoe-", ::getpid(), "-", absl::ToInt64Nanoseconds(now));
}

}  // namespace

ControlChildren::ControlChildren(const ProtectedRunOptions& options, absl::Duration began)
    : options_(options),
      began_(began),
      local_address_(address_at(began)),
      address_(options.address.empty() ? local_address_ : options.address) {}

ControlChildOptions ControlChildren::child_options(const std::string& command,
                                                   const std::string& name,
                                                   const std::vector<std::string>& flags) const {
  ControlChildOptions child;
  child.program = options_.program;
  child.arguments = {command};
  child.arguments.insert(child.arguments.end(), flags.begin(), flags.end());
  child.environment = options_.environment;
  child.log_path = join_path(options_.out, absl::StrCat("logs/", name, ".log"));
  child.kept_fd = options_.kept_fd;
  return child;
}

absl::Status ControlChildren::start_controller() {
  const ControllerProcessOptions own{
      .config = options_.config, .address = address_, .life = ++life_, .term = options_.term};
  auto child = ControlChild::start(child_options("controller", "controller", to_flags(own)));
  if (!child.ok()) return annotate(child.status(), "the controller cannot be started");
  controller_ = *std::move(child);
  return absl::OkStatus();
}

absl::Status ControlChildren::start_agent(Node node) {
  AgentProcessOptions own;
  own.config = options_.config;
  own.out = options_.out;
  own.node = node;
  own.controller = address_;
  // One after the other may be the agent of a node, but each has workers of its own.
  own.address = absl::StrCat(local_address_, "-agent-", node.value, "-", ++agent_starts_);
  own.kept_fd = options_.kept_fd;
  own.worker = options_.worker;
  own.worker_arguments = options_.worker_arguments;
  if (!options_.faults.faults.empty()) {
    const std::vector<std::string> rehearsal = {"--faults", options_.faults_path, "--faults-began",
                                                absl::StrCat(absl::ToDoubleSeconds(began_))};
    own.worker_arguments.insert(own.worker_arguments.end(), rehearsal.begin(), rehearsal.end());
  }
  auto child = ControlChild::start(
      child_options("agent", absl::StrCat("agent-", node.value), to_flags(own)));
  if (!child.ok()) return annotate(child.status(), "an agent cannot be started");
  agents_[node] = *std::move(child);
  return absl::OkStatus();
}

void ControlChildren::kill_controller() {
  if (controller_ != nullptr) controller_->kill_group();
}

void ControlChildren::kill_agent(Node node) {
  if (const auto agent = agents_.find(node); agent != agents_.end()) agent->second->kill_group();
}

bool ControlChildren::is_agent(Node node, pid_t pid) const {
  const auto agent = agents_.find(node);
  return agent != agents_.end() && agent->second->pid() == pid && !agent->second->try_wait();
}

std::optional<std::string> ControlChildren::bury_controller() {
  if (controller_ == nullptr || !controller_->try_wait()) return std::nullopt;
  const std::string how = controller_->how_it_ended();
  controller_.reset();
  return how;
}

std::vector<ControlChildren::LostAgent> ControlChildren::bury_agents() {
  std::vector<LostAgent> lost;
  for (auto at = agents_.begin(); at != agents_.end();) {
    const std::optional<ExitStatus> exit = at->second->try_wait();
    if (!exit) {
      ++at;
      continue;
    }
    lost.push_back({at->first, exit->ok(), at->second->how_it_ended()});
    at = agents_.erase(at);
  }
  return lost;
}

void ControlChildren::end_all() {
  agents_.clear();
  controller_.reset();
}

std::map<std::string, pid_t> ControlChildren::pids() const {
  std::map<std::string, pid_t> pids;
  if (controller_ != nullptr) pids["controller"] = controller_->pid();
  for (const auto& [node, agent] : agents_) pids[absl::StrCat("agent.", node.value)] = agent->pid();
  return pids;
}

std::vector<int> ControlChildren::exit_fds() const {
  std::vector<int> fds;
  if (controller_ != nullptr) fds.push_back(controller_->exit_fd());
  for (const auto& [node, agent] : agents_) fds.push_back(agent->exit_fd());
  return fds;
}

}  // namespace evermoe
