// Plans: once to every node, which hands it on to its workers. Those that have had the plan before
// get what differs; the others, as all at the beginning of a job, the whole one: from each other,
// but for the first few (plan_tree.h).
#include "absl/strings/str_cat.h"
#include "control/controller/relay/controller_relay.h"
#include "control/controller/relay/plan_tree.h"

namespace evermoe {

void ControllerRelay::act(const OpenView& send) {
  std::map<Node, PlanReaders> members;
  for (int32_t r = 0; processes_.has(Rank(r)); ++r) {
    const RoleProcesses::Process& process = processes_.of(Rank(r));
    members[process.node].push_back({process.start, Rank(r), process.since});
  }
  const PlanName name = name_of(send.plan);
  std::optional<PlanUpdate> changes;
  std::vector<std::pair<StreamNumber, PlanReaders>> whole;
  for (auto& [node, to] : members) {
    const auto agent = agents_.find(node);
    if (agent == agents_.end()) continue;
    Peer& peer = peers_[agent->second];
    if (!plan_ || peer.plan != plan_name_) {
      whole.emplace_back(agent->second, std::move(to));
      continue;
    }
    if (!changes) changes = update_of(&*plan_, send.plan);
    PlanUpdate update = *changes;
    update.to = std::move(to);
    this->send(agent->second, std::move(update));
    peer.plan = name;
  }
  plan_ = send.plan;
  plan_name_ = name;
  if (!whole.empty()) tell_whole(std::move(whole));
}

// A line that is broken reaches nobody who could serve others.
void ControllerRelay::tell_whole(std::vector<std::pair<StreamNumber, PlanReaders>> to) {
  std::vector<std::string> addresses;
  for (const auto& [stream, readers] : to)
    addresses.push_back(peers_[stream].broke ? "" : peers_[stream].lines);
  const std::vector<PlanServer> servers = plan_tree(addresses, options_.plan_branches);
  const PlanUpdate whole = update_of(nullptr, *plan_);
  const PlanUpdate rest = update_of(&*plan_, *plan_);
  for (size_t i = 0; i < to.size(); ++i) {
    auto& [stream, readers] = to[i];
    PlanUpdate update = servers[i].agent ? rest : whole;
    update.to = std::move(readers);
    if (!servers[i].agent) {
      peers_[stream].plan = plan_name_;
      send(stream, std::move(update));
      continue;
    }
    const absl::Duration patience =
        options_.plan_patience + (servers[i].depth - 1) * options_.plan_patience_more;
    send(stream, FetchPlan{plan_name_, addresses[*servers[i].agent], patience, std::move(update)});
  }
}

// It could not get it from the agent that it was told to ask. Of an older one it will hear no more:
// the newer one is on its way.
void ControllerRelay::handle(Stream& from, const Envelope&, const PlanWanted& wanted) {
  if (from.second.kind != Kind::kAgent) return refuse(from);
  if (!plan_ || wanted.plan != plan_name_) return;
  actions_.emplace_back(
      LogLine{absl::StrCat("node ", from.second.node.value, " could not get the plan of view ",
                           plan_name_.view.value, " from another node")});
  send(from.first, update_of(nullptr, *plan_));
}

void ControllerRelay::handle(Stream& from, const Envelope&, const PlanHeld& held) {
  if (from.second.kind != Kind::kAgent) return refuse(from);
  if (held.plan.view > from.second.plan.view) from.second.plan = held.plan;
}

// The plan of a former controller.
void ControllerRelay::handle(Stream& from, const Envelope&, const PlanUpdate& update) {
  absl::StatusOr<Plan> plan = apply_update(nullptr, update);
  if (from.second.kind != Kind::kAgent || !plan.ok()) return refuse(from);
  if (plan_ || plan->view < plan_name_.view) return;
  plan_name_ = name_of(*plan);
  plan_ = *std::move(plan);
}

}  // namespace evermoe
