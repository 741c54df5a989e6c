#include "sim/control_shells.h"

#include <signal.h>

#include <algorithm>

#include "base/check.h"

namespace evermoe {

ControlShell::ControlShell(SimulatedNetwork& time, ControlNetwork& network, Machine machine,
                           absl::Duration sleep_max)
    : time_(time),
      network_(network),
      sleep_max_(sleep_max),
      process_(network.begin(machine, *this)) {}

void ControlShell::on_envelope(StreamNumber stream, Envelope envelope) {
  arrived_.push_back({stream, std::move(envelope), ""});
  wake();
}

void ControlShell::on_broken(StreamNumber stream, const std::string& why) {
  arrived_.push_back({stream, std::nullopt, why});
  wake();
}

void ControlShell::wake() {
  if (std::exchange(is_awake_, true)) return;
  network_.after(process_, absl::ZeroDuration(), [this] { work(); });
}

// Mail first: it may hold the sign of life of somebody who would else be late. A process that stood
// still may find the time first.
void ControlShell::work() {
  is_awake_ = false;
  while (!arrived_.empty()) {
    const Arrived mail = std::move(arrived_.front());
    arrived_.pop_front();
    take(mail);
  }
  on_time();
  sleep();
}

void ControlShell::sleep() {
  const absl::Duration next = std::clamp(next_deadline(), time_.now(), time_.now() + sleep_max_);
  if (wakes_at_ > time_.now() && wakes_at_ <= next) return;  // it wakes up anyway
  wakes_at_ = next;
  network_.after(process_, next - time_.now(), [this, next] {
    if (wakes_at_ == next) wake();
  });
}

// ---- controller

SimulatedController::SimulatedController(SimulatedNetwork& time, ControlNetwork& network,
                                         Machine machine, const Topology& topology,
                                         const Options& options,
                                         std::function<void(const RelayAction&)> watch)
    : ControlShell(time, network, machine, options.relay.own_standstill / 2),
      farewell_max_(options.farewell_max),
      relay_(topology, options.core, options.relay, time.now()),
      watch_(std::move(watch)) {
  network_.listen(process(), options.address);
  wake();
}

bool SimulatedController::is_over() const {
  return farewell_ends_ && (!relay_.is_awaited() || time_.now() >= *farewell_ends_);
}

void SimulatedController::take(const Arrived& mail) {
  act(mail.envelope ? relay_.on_envelope(time_.now(), mail.stream, *mail.envelope)
                    : relay_.on_broken(time_.now(), mail.stream, mail.why));
}

void SimulatedController::on_time() {
  if (!relay_.end()) act(relay_.on_time(time_.now()));
  if (relay_.end() && !farewell_ends_) farewell_ends_ = time_.now() + farewell_max_;
}

absl::Duration SimulatedController::next_deadline() const {
  if (!farewell_ends_) return relay_.next_deadline();
  return time_.now() < *farewell_ends_ ? *farewell_ends_ : absl::InfiniteDuration();
}

void SimulatedController::act(const std::vector<RelayAction>& actions) {
  for (const RelayAction& action : actions) {
    watch_(action);
    if (const auto* const send = std::get_if<SendEnvelope>(&action))
      network_.send(process(), send->to, send->envelope);
    if (const auto* const cut = std::get_if<CutStream>(&action))
      network_.close(process(), cut->stream);
  }
}

// ---- agent

SimulatedAgent::SimulatedAgent(SimulatedNetwork& time, ControlNetwork& network,
                               const Options& options, WorkerHost& host,
                               std::function<void(const AgentAction&)> watch)
    : ControlShell(time, network, Machine(options.core.node.value),
                   options.core.own_standstill / 2),
      options_(options),
      host_(host),
      watch_(std::move(watch)),
      core_(options.core, time.now()) {
  network_.listen(process(), options_.address);
  wake();
}

void SimulatedAgent::on_exit(pid_t worker, const ExitStatus& exit) {
  exits_.emplace_back(worker, exit);
  wake();
}

void SimulatedAgent::take(const Arrived& mail) {
  if (end_) return;
  const absl::Duration now = time_.now();
  if (mail.stream == controller_) {
    apply(mail.envelope ? core_.on_controller(now, *mail.envelope)
                        : core_.on_controller_broken(now));
  } else if (mail.stream.value > 0 && !calls_.contains(mail.stream)) {
    apply(mail.envelope ? core_.on_worker(now, mail.stream, *mail.envelope)
                        : core_.on_worker_broken(now, mail.stream));
  }
}

// As Agent::run() does: mail, then ends of workers, then the time.
void SimulatedAgent::on_time() {
  while (!exits_.empty() && !end_) {
    const auto ended = exits_.front();
    exits_.pop_front();
    const auto worker = std::find_if(workers_.begin(), workers_.end(),
                                     [&](const auto& w) { return w.second == ended.first; });
    if (worker == workers_.end()) continue;
    const int64_t start = worker->first;
    workers_.erase(worker);
    apply(core_.on_exit(time_.now(), start, ended.second, WorkerLogTail{}));
  }
  if (!end_) apply(core_.on_time(time_.now()));
}

absl::Duration SimulatedAgent::next_deadline() const {
  return end_ ? absl::InfiniteDuration() : core_.next_deadline();
}

void SimulatedAgent::apply(AgentActions actions) {
  for (const AgentAction& action : actions) {
    watch_(action);
    std::visit([this](const auto& a) { act(a); }, action);
  }
}

void SimulatedAgent::act(const AttachController&) {
  if (controller_.value > 0) network_.close(process(), controller_);
  controller_ = network_.call(process(), options_.controller);
  calls_.insert(controller_);
}

void SimulatedAgent::act(const ToController& send) {
  network_.send(process(), controller_, send.envelope);
}

void SimulatedAgent::act(const SpawnWorker& spawn) {
  const pid_t pid = host_.spawn(spawn, options_.core.node, options_.address);
  workers_[spawn.start] = pid;
  apply(core_.on_spawned(time_.now(), spawn.start, pid));
}

void SimulatedAgent::act(const SignalWorker& signal) {
  const auto worker = workers_.find(signal.start);
  if (worker == workers_.end()) return;
  if (signal.signal == SIGKILL) host_.kill(worker->second);
}

}  // namespace evermoe
