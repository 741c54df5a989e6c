// What a controller has agents and runs do, because its core decides so.

#include "absl/strings/str_cat.h"
#include "control/controller/relay/controller_relay.h"

namespace evermoe {

void ControllerRelay::act(const StartWorker& start) {
  const RoleProcesses::Process& former = processes_.of(start.rank);
  if (former.pid != 0 && former.node != start.node) {
    out_.send_to_node(former.node,
                      KillWorker{former.node, start.rank, start.since, RoleProcesses::kReplaced},
                      former.start);
  }
  const int64_t number = processes_.begin(start, now_);
  if (Stream* const agent = peers_.agent(start.node)) agent->second.starts.insert(number);
  out_.send_to_node(start.node, start, number);
}

void ControllerRelay::act(const KillWorker& kill) {
  processes_.of(kill.rank).unconfirmed.reset();
  out_.send_to_node(kill.node, kill, processes_.of(kill.rank).start);
}

void ControllerRelay::act(const SendOrder& order) {
  const RoleProcesses::Process& newest = processes_.of(order.rank);
  out_.send_to_node(newest.node, order, newest.start);
}

void ControllerRelay::act(const OpenView& open) {
  out_.send(plans_.send(open.plan, processes_, peers_));
}

void ControllerRelay::act(const DismissNode& dismiss) {
  const Stream* const agent = peers_.dismiss(dismiss.node);
  for (const Rank rank : processes_.alive()) {
    if (processes_.of(rank).node == dismiss.node) tell_pid(rank, 0);
  }
  if (agent == nullptr) return;
  const std::string why = absl::StrCat("node ", dismiss.node.value, " has left the job");
  act(JobEvent{why});
  out_.send(agent->first,
            EndJob{.ok = true, .reason = why, .is_drained = true, .is_dismissal = true});
}

void ControllerRelay::act(const ConfirmTerm& question) {
  question_ = question;
  for (const StreamNumber run : peers_.runs()) out_.send(run, question);
}

void ControllerRelay::act(const DrainJob&) {
  is_draining_ = true;
  for (const auto& [number, peer] : peers_) {
    if (peer.is_ready) out_.send(number, Drain{});
  }
}

void ControllerRelay::act(const JobEvent& tell) {
  out_.log(tell.text);
  out_.tell_run(tell);
}

void ControllerRelay::act(const EndJob& end) {
  out_.log(absl::StrCat("the job ends: ", end.reason));
  peers_.forget_broken();
  for (const auto& [number, peer] : peers_) {
    if (peer.kind != PeerKind::kUnknown) out_.send(number, end);
    if (peer.kind == PeerKind::kRun) history_.note_end_told();
  }
  end_ = end;
}

}  // namespace evermoe
