#include "control/launch/control_children.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "control/keys/private_file.h"
#include "control/launch/control_processes.h"

namespace evermoe {

// So that the lives of a host's controllers are larger than those of every earlier host; one that
// starts more has gone astray.
constexpr int64_t kLivesOfHost = 1000;

namespace {

std::string cpu_group_name(const std::string& of) {
  return absl::StrCat("evermoe-", ::getpid(), "-", of);
}

absl::StatusOr<CpuGroupPlace> limited_cpus(double cpus) {
  const auto place = [&]() -> absl::StatusOr<CpuGroupPlace> {
    ASSIGN_OR_RETURN(const CpuGroupPlace own, own_cpu_group_place());
    RETURN_IF_ERROR(CpuGroup::make(own, cpu_group_name("trial"), cpus).status());
    return own;
  }();
  if (place.ok()) return place;
  return InvalidInput(
      absl::StrCat("run.node_cpus: found ", cpus, ", allowed here: 0: ", place.status().message()));
}

}  // namespace

absl::StatusOr<ControlPlaces> control_places(const ProtectedRunOptions& options) {
  ControlPlaces places;
  ASSIGN_OR_RETURN(places.folder, PrivateFolder::make());
  if (options.address.empty()) {
    places.secret = secret_path(places.folder->path());
    RETURN_IF_ERROR(write_private_file(places.secret, JobSecret::random().bytes()));
  } else {
    ASSIGN_OR_RETURN(places.keys, keys_for(options.address, options.keys));
    places.secret = secret_path(options.keys);
  }
  if (options.node_cpus > 0) {
    ASSIGN_OR_RETURN(places.cpus, limited_cpus(options.node_cpus));
  }
  return places;
}

ControlChildren::ControlChildren(const ProtectedRunOptions& options, ControlPlaces places,
                                 absl::Duration began)
    : options_(options),
      began_(began),
      places_(std::move(places)),
      address_(options.address.empty() ? places_.folder->address("controller") : options.address),
      life_(options.term.hosts_before * kLivesOfHost - 1) {}

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
  if (life_ + 1 >= (options_.term.hosts_before + 1) * kLivesOfHost)
    return Internal(absl::StrCat("this host has started ", kLivesOfHost, " controllers"));
  const ControllerProcessOptions own{.config = options_.config,
                                     .address = address_,
                                     .life = ++life_,
                                     .term = options_.term,
                                     .keys = options_.keys};
  auto child =
      ControlChild::start(child_options("controller-process", "controller", to_flags(own)));
  if (!child.ok()) return annotate(child.status(), "the controller cannot be started");
  controller_ = *std::move(child);
  return absl::OkStatus();
}

// Empty: no limit. A node that comes back gets the group that it had.
absl::StatusOr<std::string> ControlChildren::cpu_group_of(Node node) {
  if (!places_.cpus) return std::string();
  std::unique_ptr<CpuGroup>& group = cpu_groups_[node];
  if (group == nullptr) {
    ASSIGN_OR_RETURN(
        group, CpuGroup::make(*places_.cpus, cpu_group_name(absl::StrCat("node-", node.value)),
                              options_.node_cpus));
  }
  return group->entry();
}

absl::Status ControlChildren::start_agent(Node node) {
  AgentProcessOptions own;
  own.config = options_.config;
  own.out = options_.out;
  own.node = node;
  own.controller = address_;
  own.keys = options_.keys;
  own.secret = places_.secret;
  // One after the other may be the agent of a node, but each has workers of its own.
  own.address = places_.folder->address(absl::StrCat("agent-", node.value, "-", ++agent_starts_));
  own.kept_fd = options_.kept_fd;
  own.worker = options_.worker;
  own.worker_arguments = options_.worker_arguments;
  if (!options_.faults.faults.empty()) {
    const std::vector<std::string> rehearsal = {"--faults", options_.faults_path, "--faults-began",
                                                absl::StrCat(absl::ToDoubleSeconds(began_))};
    own.worker_arguments.insert(own.worker_arguments.end(), rehearsal.begin(), rehearsal.end());
  }
  ControlChildOptions starting =
      child_options("agent-process", absl::StrCat("agent-", node.value), to_flags(own));
  ASSIGN_OR_RETURN(starting.cpu_group, cpu_group_of(node));
  auto child = ControlChild::start(starting);
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
