#include "control/controller/status/status_book.h"

#include <algorithm>

namespace evermoe {

const char* to_string(NodeStatus::State state) {
  constexpr const char* kNames[] = {"absent",      "in use", "spare", "leaving",
                                    "quarantined", "unfit",  "lost"};
  return kNames[static_cast<int>(state)];
}

const char* to_string(RoleStatus::Phase phase) {
  constexpr const char* kNames[] = {"missing", "starting", "running", "finished", "resting"};
  return kNames[static_cast<int>(phase)];
}

void StatusBook::on_commit(Commit newest) {
  if (!first_ && newest >= Commit(0)) first_ = step_of(newest);
}

void StatusBook::on_report(const WorkerReport& report) {
  if (report.kind == WorkerReport::Kind::kPublished) durable_ = report.step;
  if (report.kind == WorkerReport::Kind::kExpertsMoved) experts_ = report.move;
}

NodeStatus StatusBook::node(absl::Duration now, const ControllerCore& core, Node node) const {
  using State = NodeStatus::State;
  NodeStatus status{.node = node};
  const auto met = agents_.find(node);
  if (met == agents_.end()) return status;
  status.host = met->second.host;
  status.silent = std::max(absl::ZeroDuration(), now - met->second.heard);
  status.complaints = core.nodes().complaints(node);
  status.warm_standbys = core.standbys().warm_for(node);
  const std::vector<Node> leaving = core.nodes().leaving();
  if (std::find(leaving.begin(), leaving.end(), node) != leaving.end())
    status.state = State::kLeaving;
  else if (!status.complaints.empty())
    status.state = State::kUnfit;
  else if (!core.nodes().is_up(node))
    status.state = core.nodes().heard(node) ? State::kLost : State::kAbsent;
  else if (core.is_quarantined(node))
    status.state = State::kQuarantined;
  else
    status.state = core.roles().workers_on(node) > 0 ? State::kInUse : State::kSpare;
  if (const auto doubt = core.nodes().doubted().find(node); doubt != core.nodes().doubted().end())
    status.complaints.push_back(doubt->second);
  return status;
}

JobStatus StatusBook::status(absl::Duration now, const ControllerCore& core,
                             const RoleProcesses& processes, const Topology& topology,
                             int nodes) const {
  JobStatus status;
  status.view = core.view();
  status.is_open = core.is_open();
  if (core.newest() >= Commit(0)) status.step = step_of(core.newest());
  status.steps = core.steps();
  status.window = core.copies().window();
  status.durable = durable_;
  status.failures = std::ssize(core.recoveries());
  status.median_step = core.median_step();
  status.elapsed = now - began_;
  status.ettr = ettr(status);
  status.survives = core.copies().survivable(core.roles());
  status.experts = experts_;
  if (!core.moves().empty()) status.move = core.moves().back();
  status.links_known = core.links().known();
  for (const auto& [link, factor] : core.links().slow())
    status.slow_links.push_back({link.from, link.to, factor});
  for (int32_t n = 0; n < nodes; ++n) status.nodes.push_back(node(now, core, Node(n)));
  // Those that came to an elastic job.
  for (auto more = agents_.lower_bound(Node(nodes)); more != agents_.end(); ++more)
    status.nodes.push_back(node(now, core, more->first));
  for (int32_t r = 0; r < topology.world_size(); ++r) {
    const RoleState& role = core.roles()[Rank(r)];
    RoleStatus one{.rank = Rank(r), .name = topology.name_of(Rank(r)), .node = role.node};
    one.pid = processes.of(Rank(r)).pid;
    if (const auto slowness = core.stragglers().slowness(Rank(r))) one.slow_by = slowness->factor;
    if (role.phase() == RoleState::Phase::kStarting) one.phase = RoleStatus::Phase::kStarting;
    if (role.phase() == RoleState::Phase::kJoined)
      one.phase = role.finished ? RoleStatus::Phase::kFinished : RoleStatus::Phase::kRunning;
    if (one.phase == RoleStatus::Phase::kRunning &&
        std::ranges::binary_search(core.resting(), Rank(r)))
      one.phase = RoleStatus::Phase::kResting;
    status.roles.push_back(std::move(one));
  }
  return status;
}

double StatusBook::ettr(const JobStatus& status) const {
  const double elapsed = absl::ToDoubleSeconds(status.elapsed);
  if (!first_ || status.step < Step(0) || elapsed <= 0) return -1;
  const auto steps = static_cast<double>(std::max<int64_t>(0, status.step.value - first_->value));
  return std::min(1.0, steps * absl::ToDoubleSeconds(status.median_step) / elapsed);
}

}  // namespace evermoe
