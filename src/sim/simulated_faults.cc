#include "sim/simulated_faults.h"

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
    case Kind::kStopNode: return inject_node_fault(fault);
    case Kind::kStopAgent: return in_.plane.stop_agent(fault.node, fault.lasts);
    case Kind::kKillController: return in_.plane.kill_controller();
    case Kind::kStopController: return in_.plane.stop_controller(fault.lasts);
    default:
      return fault.kind >= Kind::kCutLine ? inject_line_fault(fault) : inject_worker_fault(fault);
  }
}

void SimulatedFaults::inject_node_fault(const SimulatedFault& fault) {
  if (fault.kind == Kind::kStopNode) {
    in_.plane.stop_agent(fault.node, fault.lasts);
    return in_.workers.stop_all_on(fault.node, fault.lasts,
                                   [this] { mark_("worker of a stopped node back"); });
  }
  in_.plane.kill_agent(fault.node);
  if (fault.lasts == absl::ZeroDuration()) return;
  in_.network.after(fault.lasts, [this, node = fault.node] {
    if (in_.plane.is_up(node)) return;
    mark_("node lost and back");
    in_.plane.start_agent(node);
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
  const std::optional<pid_t> worker = in_.workers.playing(fault.rank);
  if (!worker) return;
  if (fault.kind == Kind::kKillWorker) return in_.workers.kill(*worker);
  if (fault.kind == Kind::kStopWorker) return in_.workers.stop(*worker);
  if (const auto other = in_.workers.playing(fault.other)) in_.workers.cut(*worker, *other);
}

void SimulatedFaults::inject_line_fault(const SimulatedFault& fault) {
  ControlNetwork& lines = in_.control;
  for (int32_t n = 0; n < in_.nodes; ++n) {
    if (fault.node.value >= 0 && fault.node != Node(n)) continue;
    const Machine node(n);
    if (fault.kind == Kind::kCutLine || fault.kind == Kind::kMuteNode)
      lines.block(node, kHeadMachine, fault.lasts);
    if (fault.kind == Kind::kCutLine || fault.kind == Kind::kDeafNode)
      lines.block(kHeadMachine, node, fault.lasts);
    if (fault.kind == Kind::kSlowLine) {
      lines.slow(node, kHeadMachine, kSlowDelayMax, fault.lasts);
      lines.slow(kHeadMachine, node, kSlowDelayMax, fault.lasts);
    }
    if (fault.kind != Kind::kBreakLine) continue;
    if (fault.agent_is_late)
      lines.break_streams(kHeadMachine, node, fault.lasts);
    else
      lines.break_streams(node, kHeadMachine, fault.lasts);
  }
}

}  // namespace evermoe
