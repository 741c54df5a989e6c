#include "control/controller/plans/plan_sender.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "control/controller/plans/plan_tree.h"

namespace evermoe {
namespace {

using PlanReaders = std::map<Node, std::vector<PlanUpdate::Addressee>>;

PlanReaders readers_of_plan(const RoleProcesses& processes) {
  PlanReaders readers;
  for (int32_t r = 0; processes.has(Rank(r)); ++r) {
    const RoleProcesses::Process& process = processes.of(Rank(r));
    readers[process.node].push_back({process.start, Rank(r), process.since});
  }
  return readers;
}

}  // namespace

std::vector<SendEnvelope> PlanSender::send(const Plan& plan, const RoleProcesses& processes,
                                           RelayPeers& peers) {
  const PlanName name = name_of(plan);
  std::vector<SendEnvelope> envelopes;
  std::optional<PlanUpdate> changes;
  Whole whole;
  for (auto& [node, readers] : readers_of_plan(processes)) {
    RelayPeers::Stream* const agent = peers.agent(node);
    if (agent == nullptr) continue;
    if (!plan_ || agent->second.plan != name_) {
      whole.emplace_back(agent, std::move(readers));
      continue;
    }
    if (!changes) changes = update_of(&*plan_, plan);
    PlanUpdate update = *changes;
    update.to = std::move(readers);
    envelopes.push_back({agent->first, {0, std::move(update)}});
    agent->second.plan = name;
  }
  plan_ = plan;
  name_ = name;
  for (SendEnvelope& one : send_whole(std::move(whole))) envelopes.push_back(std::move(one));
  return envelopes;
}

// A line that is broken reaches nobody who could serve others.
std::vector<SendEnvelope> PlanSender::send_whole(Whole to) const {
  if (to.empty()) return {};
  std::vector<std::string> addresses;
  for (const auto& [agent, readers] : to)
    addresses.push_back(agent->second.broke ? "" : agent->second.lines);
  const std::vector<PlanServer> servers = plan_tree(addresses, pace_.branches);
  const PlanUpdate whole = update_of(nullptr, *plan_);
  const PlanUpdate rest = update_of(&*plan_, *plan_);
  std::vector<SendEnvelope> envelopes;
  for (size_t i = 0; i < to.size(); ++i) {
    auto& [agent, readers] = to[i];
    PlanUpdate update = servers[i].agent ? rest : whole;
    update.to = std::move(readers);
    if (!servers[i].agent) {
      agent->second.plan = name_;
      envelopes.push_back({agent->first, {0, std::move(update)}});
      continue;
    }
    const absl::Duration patience = pace_.patience + (servers[i].depth - 1) * pace_.patience_more;
    FetchPlan fetch{name_, addresses[*servers[i].agent], patience, std::move(update)};
    envelopes.push_back({agent->first, {0, std::move(fetch)}});
  }
  return envelopes;
}

bool PlanSender::wants(PlanName held) {
  if (plan_ || held.view <= name_.view) return false;
  name_ = held;
  return true;
}

PlanAnswer PlanSender::hear(const RelayPeer& agent, const PlanWanted& wanted) const {
  if (!plan_ || wanted.plan != name_) return {};
  return {.whole = update_of(nullptr, *plan_),
          .log = absl::StrCat("node ", agent.node.value, " could not get the plan of view ",
                              name_.view.value, " from another node")};
}

PlanAnswer PlanSender::hear(RelayPeer& agent, const PlanHeld& held) const {
  if (held.plan.view > agent.plan.view) agent.plan = held.plan;
  return {};
}

PlanAnswer PlanSender::hear(const RelayPeer&, const PlanUpdate& update) {
  absl::StatusOr<Plan> plan = apply_update(nullptr, update);
  if (!plan.ok()) return {.is_nonsense = true};
  if (plan_ || plan->view < name_.view) return {};
  name_ = name_of(*plan);
  plan_ = *std::move(plan);
  return {};
}

}  // namespace evermoe
