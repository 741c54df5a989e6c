#include "sim/control_plane.h"

#include <signal.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace evermoe {
namespace {

constexpr char kControllerAddress[] = "controller";

}  // namespace

ControlPlane::ControlPlane(SimulatedNetwork& time, ControlNetwork& network,
                           const Topology& topology, ControlPlaneOptions options, WorkerHost& host,
                           std::function<void(std::string)> tell,
                           std::function<void(const std::string&)> mark)
    : time_(time),
      network_(network),
      topology_(topology),
      options_(std::move(options)),
      host_(host),
      tell_(std::move(tell)),
      mark_(std::move(mark)),
      run_(network.begin(kHeadMachine, *this)) {}

ControlPlane::~ControlPlane() = default;

absl::Duration ControlPlane::draw(absl::Duration max) {
  return absl::Microseconds(
      static_cast<int64_t>(time_.draw(static_cast<uint64_t>(absl::ToInt64Microseconds(max)) + 1)));
}

void ControlPlane::begin() {
  start_controller();
  for (int32_t n = 0; n < options_.controller.nodes + options_.controller.spares; ++n)
    start_agent(Node(n));
  look();
}

// ---- processes

void ControlPlane::start_controller() {
  heard_ = time_.now();
  is_opening_ = true;
  const int64_t life = ++life_;
  network_.after(run_, draw(options_.start_max), [this, life] {
    if (life != life_ || end_) return;
    SimulatedController::Options own{kControllerAddress, options_.controller, options_.relay,
                                     options_.farewell_max};
    own.core.takes_over = life > 0;
    own.relay.life = life;
    controller_ =
        std::make_unique<SimulatedController>(time_, network_, kHeadMachine, topology_, own,
                                              [this](const RelayAction& action) { watch(action); });
  });
}

void ControlPlane::replace_controller(const std::string& how) {
  if (controller_ == nullptr) return;
  network_.end(controller_->process());
  ended_.push_back(std::move(controller_));
  is_attached_ = false;
  network_.after(run_, draw(network_.options().notice_max), [this, how] {
    if (end_) return;
    tell_(absl::StrCat("the controller is lost: ", how, "; the next one takes over"));
    start_controller();
  });
}

void ControlPlane::kill_controller() {
  if (controller_ == nullptr) return;
  mark_(is_opening_ ? "controller killed while a view opened" : "controller killed");
  replace_controller("killed by signal 9 (Killed)");
}

void ControlPlane::stop_controller(absl::Duration time) {
  if (controller_ == nullptr || controller_->is_stopped()) return;
  controller_->stop();
  time_.after(time, [this, stopped = controller_.get()] {
    if (controller_.get() != stopped) return;
    mark_("controller stopped and back");
    controller_->go_on();
  });
}

void ControlPlane::start_agent(Node node) {
  if (agents_.contains(node) || end_) return;
  SimulatedAgent::Options own{kControllerAddress, absl::StrCat("agent-", node.value, "-", ++pids_),
                              options_.agent};
  own.core.node = node;
  own.core.pid = pids_;
  agents_[node] = std::make_unique<SimulatedAgent>(
      time_, network_, own, host_, [this](const AgentAction& action) { watch(action); });
}

void ControlPlane::kill_agent(Node node) {
  const auto agent = agents_.find(node);
  if (agent == agents_.end()) return;
  network_.end(agent->second->process());
  host_.kill_all_of(agent->second->address());
  ended_.push_back(std::move(agent->second));
  agents_.erase(agent);
  network_.after(run_, draw(network_.options().notice_max),
                 [this, node] { on_agent_end(node, "killed by signal 9 (Killed)"); });
}

void ControlPlane::on_agent_end(Node node, const std::string& how) {
  return_at_ = std::max(return_at_, time_.now());
  if (!end_) tell_(absl::StrCat("node ", node.value, " is lost: its agent: ", how));
}

void ControlPlane::stop_agent(Node node, absl::Duration time) {
  const auto agent = agents_.find(node);
  if (agent == agents_.end() || agent->second->is_stopped()) return;
  agent->second->stop();
  time_.after(time, [this, node, stopped = agent->second.get()] {
    const auto found = agents_.find(node);
    if (found == agents_.end() || found->second.get() != stopped) return;
    mark_("agent stopped and back");
    stopped->go_on();
  });
}

void ControlPlane::on_worker_exit(const std::string& address, pid_t worker,
                                  const ExitStatus& exit) {
  for (const auto& [node, agent] : agents_) {
    if (agent->address() == address) agent->on_exit(worker, exit);
  }
}

// ---- the run, as in protected_run.cc

void ControlPlane::look() {
  ended_.clear();
  look_after_controller();
  look_after_call();
  look_after_nodes();
  if (end_ && ((controller_ == nullptr && agents_.empty()) || time_.now() >= farewell_ends_)) {
    if (controller_ != nullptr || !agents_.empty()) mark_("killed at the farewell");
    for (const auto& [node, agent] : agents_) host_.kill_all_of(agent->address());
    is_over_ = true;
    return time_.end();
  }
  network_.after(run_, options_.agent.beat / 2, [this] { look(); });
}

void ControlPlane::look_after_controller() {
  if (controller_ == nullptr) return;
  if (controller_->is_over()) {
    network_.end(controller_->process());
    ended_.push_back(std::move(controller_));
    // It may have ended without having been heard.
    if (!end_) start_controller();
    return;
  }
  const absl::Duration patience =
      is_attached_ ? options_.agent.silence_max : 12 * options_.agent.silence_max;
  if (time_.now() < heard_ + patience) return;
  mark_("controller hung");
  replace_controller(absl::StrCat("hung: no sign of life for ", absl::FormatDuration(patience)));
}

void ControlPlane::look_after_call() {
  if (end_) {
    if (call_.value > 0) network_.close(run_, std::exchange(call_, StreamNumber(0)));
    return;
  }
  if (call_.value == 0 && time_.now() >= retry_at_) {
    call_ = network_.call(run_, kControllerAddress);
    network_.send(run_, call_, {0, RunHello{}});
  }
  if (!is_attached_ || time_.now() < next_beat_) return;
  next_beat_ = time_.now() + options_.agent.beat;
  network_.send(run_, call_, {0, Beat{}});
}

void ControlPlane::look_after_nodes() {
  for (auto at = agents_.begin(); at != agents_.end();) {
    if (!at->second->end()) {
      ++at;
      continue;
    }
    const QuitAgent quit = *at->second->end();
    // One that ends well may have heard of the end of the job before us.
    return_at_ = std::max(return_at_,
                          time_.now() + (quit.ok ? options_.farewell_max : absl::ZeroDuration()));
    if (!quit.ok) on_agent_end(at->first, quit.reason);
    network_.end(at->second->process());
    ended_.push_back(std::move(at->second));
    at = agents_.erase(at);
  }
  if (!agents_.empty() || end_ || time_.now() < return_at_) return;
  tell_("no node is left: node 0 starts again");
  mark_("no node was left");
  start_agent(Node(0));
}

void ControlPlane::on_envelope(StreamNumber stream, Envelope envelope) {
  if (stream != call_) return;
  heard_ = time_.now();
  std::visit([this](const auto& message) { hear(message); }, envelope.message);
}

void ControlPlane::on_broken(StreamNumber stream, const std::string&) {
  if (stream != call_) return;
  call_ = StreamNumber(0);
  is_attached_ = false;
  heard_ = time_.now();  // from now on it is given the time to come up
  retry_at_ = time_.now() + options_.agent.retry;
}

void ControlPlane::hear(const Welcome& welcome) {
  is_attached_ = true;
  met_ = welcome.life;
}

void ControlPlane::hear(const NodeLost& lost) {
  const auto agent = agents_.find(lost.node);
  if (agent == agents_.end() || agent->second->pid() != lost.agent) return;
  mark_("living node given up");
  if (!options_.ends_lost_nodes) return;
  tell_(absl::StrCat("node ", lost.node.value, " is ended: ", lost.why));
  kill_agent(lost.node);
}

void ControlPlane::hear(const EndJob& end) {
  if (end_) return;
  end_ = end;
  farewell_ends_ = time_.now() + options_.farewell_max;
  is_attached_ = false;
}

std::vector<RecoveryRecord> ControlPlane::recoveries() const {
  std::vector<RecoveryRecord> records;
  for (const auto& [number, record] : notes_) records.push_back(record);
  return records;
}

// ---- rare paths

void ControlPlane::watch(const RelayAction& action) {
  if (const auto* const send = std::get_if<SendEnvelope>(&action)) {
    if (const auto* const kill = std::get_if<KillWorker>(&send->envelope.message)) {
      if (kill->why == "another process plays its role")
        mark_("former process of a role told to end");
    }
    if (const auto* const order = std::get_if<SendOrder>(&send->envelope.message)) {
      is_opening_ = std::holds_alternative<StopOrder>(order->message);
    }
    if (const auto* const start = std::get_if<StartWorker>(&send->envelope.message)) {
      if (start->node.value >= options_.controller.nodes) mark_("spare takes over");
    }
  }
  if (const auto* const line = std::get_if<LogLine>(&action)) {
    if (absl::StrContains(line->text, "it attaches anew"))
      mark_("agent attaches before its old line breaks");
    if (absl::StrContains(line->text, "is back on a new line")) mark_("agent back on a new line");
    if (absl::StrContains(line->text, " moves to node "))
      mark_("role moved away from where it kept dying");
    if (absl::StrContains(line->text, "is lost: no sign of life"))
      mark_("agent lost for its silence");
    if (absl::StrContains(line->text, "the connection broke")) mark_("agent lost with its line");
    if (life_ > 0 && absl::StrContains(line->text, "the job begins"))
      mark_("begun anew by a later controller");
    if (absl::StrContains(line->text, "gone when the new controller came")) mark_("not adopted");
  }
}

void ControlPlane::watch(const AgentAction& action) {
  if (const auto* const send = std::get_if<ToController>(&action)) {
    if (std::holds_alternative<WorkerStarted>(send->envelope.message) && life_ > 0)
      mark_("worker shown to a new controller");
  }
  if (const auto* const quit = std::get_if<QuitAgent>(&action); quit != nullptr && !quit->ok)
    mark_("agent gives up");
}

}  // namespace evermoe
