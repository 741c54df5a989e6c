// The controller and the agents as processes: started, watched, started again.

#include "absl/strings/str_cat.h"
#include "control/launch/control_processes.h"
#include "control/launch/protected_run_loop.h"

namespace evermoe {

ControlChildOptions ProtectedRun::child_options(const std::string& command, const std::string& name,
                                                std::vector<std::string> flags) const {
  ControlChildOptions child;
  child.program = options_.program;
  child.arguments = {command};
  child.arguments.insert(child.arguments.end(), flags.begin(), flags.end());
  child.environment = options_.environment;
  child.log_path = join_path(options_.out, absl::StrCat("logs/", name, ".log"));
  child.kept_fd = options_.kept_fd;
  return child;
}

void ProtectedRun::start_controller() {
  const ControllerProcessOptions own{
      .config = options_.config, .address = address_, .life = ++life_};
  auto child = ControlChild::start(child_options("controller", "controller", to_flags(own)));
  if (!child.ok())
    return fail(kExitFailed,
                absl::StrCat("the controller cannot be started: ", child.status().message()));
  controller_ = *std::move(child);
  heard_ = time_.at(clock_.now());
  write_workers();
}

void ProtectedRun::look_after_controller() {
  if (controller_ == nullptr) return;
  const absl::Duration patience =
      is_attached_ ? options_.agent.silence_max : options_.control_start_max;
  if (time_.at(clock_.now()) >= heard_ + patience) {
    observer_.on_say(absl::StrCat("the controller is hung: no sign of life for ",
                                  absl::FormatDuration(patience)));
    heard_ = time_.at(clock_.now());
    controller_->kill_group();
  }
  if (!controller_->try_wait()) return;
  const std::string how = controller_->how_it_ended();
  controller_.reset();
  is_attached_ = false;
  if (end_) return;
  book_.on_controller_end(clock_.now(), how, newest_);
  if (++controller_losses_ > options_.control_losses_max) {
    return fail(kExitFailed, absl::StrCat("controllers end again and again; the last: ", how));
  }
  observer_.on_say(absl::StrCat("the controller is lost: ", how, "; the next one takes over"));
  start_controller();
}

void ProtectedRun::start_agent(Node node) {
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
  if (!child.ok())
    return fail(kExitFailed,
                absl::StrCat("an agent cannot be started: ", child.status().message()));
  agents_[node] = *std::move(child);
  write_workers();
}

void ProtectedRun::look_after_agents() {
  for (auto at = agents_.begin(); at != agents_.end() && !failure_;) {
    const auto& [node, agent] = *at;
    const std::optional<ExitStatus> exit = agent->try_wait();
    if (!exit) {
      ++at;
      continue;
    }
    // One that ends well may have heard of the end of the job before us.
    return_at_ = clock_.now() + (exit->ok() ? kFarewellMax : absl::ZeroDuration());
    if (!end_ && !exit->ok()) on_agent_lost(node, agent->how_it_ended());
    at = agents_.erase(at);  // and with it whatever lives of the node
    write_workers();
  }
  if (!agents_.empty() || end_ || failure_ || clock_.now() < return_at_) return;
  observer_.on_say(options_.address.empty() ? "no node is left: node 0 starts again"
                                            : "node 0 starts again");
  start_agent(Node(0));
}

void ProtectedRun::on_agent_lost(Node node, const std::string& how) {
  observer_.on_say(absl::StrCat("node ", node.value, " is lost: its agent: ", how));
  const auto& core = options_.controller.core;
  if (++agent_losses_ <= options_.control_losses_max + core.nodes + core.spares) return;
  fail(kExitFailed, absl::StrCat("agents end again and again; the last: ", how));
}

}  // namespace evermoe
