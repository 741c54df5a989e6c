#include "sim/simulated_faults.h"

#include <string_view>

#include "absl/strings/str_cat.h"

namespace evermoe {
namespace {

using Kind = SimulatedFault::Kind;

constexpr absl::Duration kSlowDelayMax = absl::Milliseconds(150);

}  // namespace

void SimulatedFaults::schedule() {
  for (const SimulatedFault& fault : faults_) {
    if (fault.point.empty()) in_.network.after(fault.time, [this, fault] { inject(fault); });
  }
}

void SimulatedFaults::pass_point(const char* point) {
  const std::optional<Rank> rank = in_.workers.running();
  if (!rank) return;
  if (std::string_view(point) == "step/accumulated") in_.workers.compute();
  const int64_t any = ++passings_[{point, -1}];
  const int64_t own = ++passings_[{point, rank->value}];
  for (const SimulatedFault& fault : faults_) {
    if (fault.point != point) continue;
    if (fault.passing != (fault.at_rank.value < 0 ? any : own)) continue;
    if (fault.at_rank.value >= 0 && fault.at_rank != *rank) continue;
    SimulatedFault here = fault;
    if (fault.kind == Kind::kKillWorker && fault.rank.value < 0) here.rank = *rank;
    inject(here);
  }
}

void SimulatedFaults::inject(const SimulatedFault& fault) {
  tell_(absl::StrCat("FAULT: ", to_string(fault)));
  switch (fault.kind) {
    case Kind::kKillNode:
    case Kind::kStopAgent:
    case Kind::kStopNode:
    case Kind::kSuspendNode:
    case Kind::kUnfitNode:
    case Kind::kLeaveNode: return inject_node_fault(fault);
    case Kind::kMoveRoles: return move_roles(fault.wish);
    case Kind::kDrainJob: return in_.plane.drain();
    case Kind::kKillController: return in_.plane.kill_controller();
    case Kind::kStopController: return in_.plane.stop_controller(fault.lasts);
    case Kind::kChangeHost: return in_.plane.change_host(fault.lasts);
    case Kind::kFillDisk: return in_.disk.fill(fault.rank, fault.lasts);
    case Kind::kCutStore:
    case Kind::kMuteStore:
    case Kind::kStopStore: return inject_store_fault(fault);
    case Kind::kCutNodes:
    case Kind::kIsolateNode: return cut_agents(fault);
    case Kind::kCutWorkers:
    case Kind::kMuteWorkers:
    case Kind::kUnplugNode: return cut_workers(fault);
    case Kind::kSlowLink:
      return in_.network.slow_down(Machine(fault.node.value), Machine(fault.peer.value),
                                   SimulatedFault::kSlowLinkMore, absl::ZeroDuration());
    default:
      return fault.kind >= Kind::kCutLine ? inject_line_fault(fault) : inject_worker_fault(fault);
  }
}

void SimulatedFaults::move_roles(MoveWanted wish) {
  for (size_t i = 0; i < wish.to.size(); ++i) {
    const Rank before = wish.roles[i > 0 ? i - 1 : wish.roles.size() - 1];
    if (wish.to[i].value < 0) wish.to[i] = in_.workers.node_of(before).value_or(Node(-1));
  }
  in_.plane.want(wish);
}

void SimulatedFaults::inject_node_fault(const SimulatedFault& fault) {
  const std::optional<Node> node =
      fault.node.value < 0 ? in_.plane.host_node() : std::optional(fault.node);
  if (!node) return;
  if (fault.kind == Kind::kLeaveNode) return in_.plane.give_notice(*node, fault.lasts);
  if (fault.kind == Kind::kUnfitNode) return in_.plane.make_unfit(*node, fault.lasts);
  if (fault.kind != Kind::kKillNode) {
    const bool is_all = fault.kind != Kind::kStopAgent;
    in_.plane.stop_node(*node, {.time = fault.lasts,
                                .with_controller = is_all,
                                .with_clock = fault.kind == Kind::kSuspendNode});
    if (!is_all) return;
    return in_.workers.stop_all_on(*node, fault.lasts,
                                   [this] { mark_("worker of a stopped node back"); });
  }
  in_.plane.kill_node(*node);
  if (fault.lasts == absl::ZeroDuration()) return;
  in_.network.after(fault.lasts, [this, node = *node] {
    if (in_.plane.is_up(node)) return;
    mark_("node lost and back");
    in_.plane.start_node(node);
  });
}

void SimulatedFaults::inject_worker_fault(const SimulatedFault& fault) {
  if (fault.kind == Kind::kHang) return in_.network.pause(absl::InfiniteDuration());
  if (fault.kind == Kind::kPause) return in_.network.pause(SimulatedFault::kPauseTime);
  if (fault.kind == Kind::kCorruptCopies) {
    return in_.workers.corrupt_copies(
        fault.rank, fault.only_at.value < 0 ? std::nullopt : std::optional(fault.only_at));
  }
  if (fault.kind == Kind::kDoomRole) return in_.workers.doom(fault.rank, fault.node);
  if (fault.kind == Kind::kKillStandby) return in_.workers.kill_standby(fault.node);
  const std::optional<pid_t> worker = in_.workers.playing(fault.rank);
  if (!worker) return;
  if (fault.kind == Kind::kKillWorker) return in_.workers.kill(*worker);
  if (fault.kind == Kind::kStopWorker) return in_.workers.stop(*worker);
  if (fault.kind == Kind::kSlowWorker) return in_.workers.slow_down(*worker, fault.factor);
  if (const auto other = in_.workers.playing(fault.other)) in_.workers.cut(*worker, *other);
}

void SimulatedFaults::inject_line_fault(const SimulatedFault& fault) {
  for (int32_t n = 0; n < in_.nodes; ++n) {
    if (fault.node.value >= 0 && fault.node != Node(n)) continue;
    if (in_.plane.store() == nullptr) inject_line_fault(fault, Machine(n), kHeadMachine);
    for (int32_t peer = 0; in_.plane.store() != nullptr && peer < in_.nodes; ++peer) {
      if (peer != n) inject_line_fault(fault, Machine(n), Machine(peer));
    }
  }
}

void SimulatedFaults::inject_line_fault(const SimulatedFault& fault, Machine node, Machine peer) {
  ControlNetwork& lines = in_.control;
  if (fault.kind == Kind::kCutLine || fault.kind == Kind::kMuteNode) {
    mark_(fault.kind == Kind::kCutLine ? "line cut" : "one-way cut");
    lines.block(node, peer, fault.lasts);
  }
  if (fault.kind == Kind::kCutLine || fault.kind == Kind::kDeafNode) {
    mark_(fault.kind == Kind::kCutLine ? "line cut" : "one-way cut");
    lines.block(peer, node, fault.lasts);
  }
  if (fault.kind == Kind::kSlowLine) {
    lines.slow(node, peer, kSlowDelayMax, fault.lasts);
    lines.slow(peer, node, kSlowDelayMax, fault.lasts);
  }
  if (fault.kind != Kind::kBreakLine) return;
  if (fault.agent_is_late)
    lines.break_streams(peer, node, fault.lasts);
  else
    lines.break_streams(node, peer, fault.lasts);
}

void SimulatedFaults::cut_agents(const SimulatedFault& fault) {
  const Machine machine(fault.node.value);
  for (int32_t n = 0; n < in_.nodes; ++n) {
    const Machine other(n);
    if (other == machine || (fault.kind == Kind::kCutNodes && fault.peer != Node(n))) continue;
    in_.control.block(machine, other, fault.lasts);
    in_.control.block(other, machine, fault.lasts);
  }
}

void SimulatedFaults::cut_workers(const SimulatedFault& fault) {
  const Machine machine(fault.node.value);
  for (int32_t n = 0; n < in_.nodes; ++n) {
    const Machine other(n);
    if (other == machine || (fault.kind != Kind::kUnplugNode && fault.peer != Node(n))) continue;
    in_.network.block(machine, other, fault.lasts);
    if (fault.kind != Kind::kMuteWorkers) in_.network.block(other, machine, fault.lasts);
    mark_(fault.kind == Kind::kUnplugNode   ? "node unplugged"
          : fault.kind == Kind::kCutWorkers ? "workers cut from each other"
                                            : "workers cut one way");
  }
  if (fault.kind != Kind::kUnplugNode || !fault.with_agent) return;
  SimulatedFault of_agent = fault;
  of_agent.kind = Kind::kIsolateNode;
  cut_agents(of_agent);
  of_agent.kind = Kind::kCutLine;
  inject_line_fault(of_agent);
  if (in_.plane.store() != nullptr) in_.plane.store()->cut(machine, fault.lasts, false);
}

void SimulatedFaults::inject_store_fault(const SimulatedFault& fault) {
  SimulatedStore* const store = in_.plane.store();
  if (store == nullptr) return;
  if (fault.kind == Kind::kStopStore) {
    mark_("store away");
    return store->go_away(fault.lasts);
  }
  const std::optional<Node> host = in_.plane.host_node();
  for (int32_t n = 0; n < in_.nodes; ++n) {
    if (fault.node.value >= 0 && fault.node != Node(n)) continue;
    if (host == Node(n)) mark_("host cut from the store");
    store->cut(Machine(n), fault.lasts, fault.kind == Kind::kMuteStore);
  }
}

}  // namespace evermoe
