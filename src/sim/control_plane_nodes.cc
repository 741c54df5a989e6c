// The nodes of a simulated control plane: what starts and ends them.

#include "absl/strings/str_cat.h"
#include "sim/control_plane.h"

namespace evermoe {

void ControlPlane::start_node(Node node) {
  if (agents_.contains(node) || end_) return;
  SimulatedAgent::Options own{options_.has_store ? "" : kControllerAddress,
                              absl::StrCat("agent-", node.value, "-", ++pids_), options_.agent};
  own.core.node = node;
  own.core.pid = pids_;
  own.core.incarnation = pids_;
  agents_[node] = std::make_unique<SimulatedAgent>(
      time_, network_, own, workers_,
      SimulatedAgent::Events{
          .watch = [this](const AgentAction& action) { watch(action); },
          .break_rule = [this](const std::string& how) { violations_.push_back(how); }});
  if (options_.has_store) {
    end_candidate(node);
    start_candidate(node);
  }
}

void ControlPlane::join_late() {
  if (end_ || is_up(options_.late_node)) return;
  around_.mark("node joins late");
  start_node(options_.late_node);
}

void ControlPlane::kill_node(Node node) {
  const auto agent = agents_.find(node);
  if (agent == agents_.end()) return;
  if (SimulatedHost* const session = session_on(node)) {
    around_.mark("host lost with its machine");
    session->leave("its machine is lost");
  }
  end_candidate(node);
  without_host_.erase(node);
  network_.end(agent->second->process());
  workers_.kill_all_of(agent->second->address());
  ended_.push_back(std::move(agent->second));
  agents_.erase(agent);
  time_.after(draw(network_.options().notice_max),
              [this, node] { on_agent_end(node, "killed by signal 9 (Killed)"); });
}

void ControlPlane::give_notice(Node node, absl::Duration time) {
  const auto agent = agents_.find(node);
  if (agent == agents_.end()) return;
  agent->second->leave();
  if (time == absl::ZeroDuration()) return;
  time_.after(time, [this, node, pid = agent->second->pid()] {
    const auto found = agents_.find(node);
    if (found == agents_.end() || found->second->pid() != pid) return;
    around_.mark("notice run out");
    kill_node(node);
  });
}

// Its machine is measured while it plays no role.
void ControlPlane::make_unfit(Node node, absl::Duration time) {
  const auto agent = agents_.find(node);
  if (agent == agents_.end() || !agent->second->judge({"disk: full"})) return;
  around_.mark("machine not fit for a while");
  time_.after(time, [this, node, pid = agent->second->pid()] { make_fit(node, pid); });
}

void ControlPlane::make_fit(Node node, pid_t agent) {
  const auto found = agents_.find(node);
  if (found == agents_.end() || found->second->pid() != agent || found->second->judge({})) return;
  time_.after(options_.agent.beat, [this, node, agent] { make_fit(node, agent); });
}

void ControlPlane::on_agent_end(Node node, const std::string& how) {
  return_at_ = std::max(return_at_, time_.now());
  if (!end_) around_.tell(absl::StrCat("node ", node.value, " is lost: its agent: ", how));
}

void ControlPlane::stop_node(Node node, const Standstill& how) {
  const auto agent = agents_.find(node);
  if (agent == agents_.end() || agent->second->is_stopped()) return;
  const auto candidate = candidates_.find(node);
  SimulatedHost* const session = session_on(node);
  agent->second->stop();
  if (candidate != candidates_.end()) candidate->second->stop();
  if (session != nullptr) session->stop(how.with_controller);
  time_.after(how.time, [this, node, how, session, stopped = agent->second->process()] {
    const auto found = agents_.find(node);
    if (found == agents_.end() || found->second->process() != stopped) return;
    around_.mark("agent stopped and back");
    if (how.with_clock) {
      around_.mark("clock stood still");
      excused_until_ = time_.now() + options_.candidate.election.ttl;
      network_.put_back_clock(Machine(node.value), how.time);
    }
    if (session != nullptr) {
      around_.mark(session == host() ? "host stopped and back" : "old host wakes up");
      session->go_on();
    }
    found->second->go_on();
    if (const auto own = candidates_.find(node); own != candidates_.end()) own->second->go_on();
  });
}

void ControlPlane::on_worker_exit(const std::string& address, pid_t worker,
                                  const ExitStatus& exit) {
  for (const auto& [node, agent] : agents_) {
    if (agent->address() == address) agent->on_exit(worker, exit);
  }
}

void ControlPlane::look_after_nodes() {
  for (auto at = agents_.begin(); at != agents_.end();) {
    if (!at->second->end()) {
      ++at;
      continue;
    }
    const QuitAgent quit = *at->second->end();
    // One that ends well may have heard of the end of the job before its host.
    return_at_ = std::max(return_at_,
                          time_.now() + (quit.ok ? options_.farewell_max : absl::ZeroDuration()));
    if (!quit.ok) on_agent_end(at->first, quit.reason);
    if (at->second->is_dismissed()) {
      around_.mark("node left the job");
      if (SimulatedHost* const session = session_on(at->first))
        session->leave("its machine leaves");
    }
    if (session_on(at->first) == nullptr) end_candidate(at->first);
    network_.end(at->second->process());
    ended_.push_back(std::move(at->second));
    at = agents_.erase(at);
  }
  if (!agents_.empty() || end_ || time_.now() < return_at_) return;
  around_.tell("no node is left: node 0 starts again");
  around_.mark("no node was left");
  start_node(Node(0));
}

}  // namespace evermoe
