#include "sim/control_shells.h"

#include <signal.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace evermoe {

ControlShell::ControlShell(SimulatedNetwork& time, ControlNetwork& network, Machine machine,
                           absl::Duration sleep_max)
    : time_(time),
      network_(network),
      sleep_max_(sleep_max),
      process_(network.begin(machine, *this)) {}

void ControlShell::on_envelope(StreamNumber stream, Envelope envelope) noexcept {
  arrived_.push_back({stream, std::move(envelope), ""});
  wake();
}

void ControlShell::on_broken(StreamNumber stream, const std::string& why) noexcept {
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
  const absl::Duration next = std::clamp(next_deadline(), now(), now() + sleep_max_);
  if (wakes_at_ > now() && wakes_at_ <= next) return;  // it wakes up anyway
  wakes_at_ = next;
  network_.after(process_, next - now(), [this, next] {
    if (wakes_at_ != next) return;
    // With a clock that has stood still it is not `next` yet, and nothing else would wake it then.
    wakes_at_ = absl::ZeroDuration();
    wake();
  });
}

// ---- controller

SimulatedController::SimulatedController(SimulatedNetwork& time, ControlNetwork& network,
                                         Machine machine, const Topology& topology,
                                         const Options& options,
                                         std::function<void(const RelayAction&)> watch)
    : ControlShell(time, network, machine, options.relay.own_standstill / 2),
      farewell_max_(options.farewell_max),
      on_end_(options.on_end),
      relay_(topology, options.core, options.relay, now()),
      watch_(std::move(watch)) {
  network_.listen(process(), options.address);
  wake();
}

bool SimulatedController::is_over() const {
  return farewell_ends_ && (!relay_.is_awaited() || now() >= *farewell_ends_);
}

void SimulatedController::take(const Arrived& mail) {
  act(mail.envelope ? relay_.on_envelope(now(), mail.stream, *mail.envelope)
                    : relay_.on_broken(now(), mail.stream, mail.why));
}

void SimulatedController::on_time() {
  if (!relay_.end()) act(relay_.on_time(now()));
  if (!relay_.end() || farewell_ends_) return;
  farewell_ends_ = now() + farewell_max_;
  on_end_(*relay_.end());
}

absl::Duration SimulatedController::next_deadline() const {
  if (!farewell_ends_) return relay_.next_deadline();
  return now() < *farewell_ends_ ? *farewell_ends_ : absl::InfiniteDuration();
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
                               const Options& options, WorkerHost& host, Events events)
    : ControlShell(time, network, Machine(options.core.node.value),
                   options.core.own_standstill / 2),
      options_(options),
      host_(host),
      events_(std::move(events)),
      core_(options.core, now()),
      controller_address_(options.controller) {
  network_.listen(process(), options_.address);
  network_.listen(process(), lines());
  wake();
}

void SimulatedAgent::on_exit(pid_t worker, const ExitStatus& exit) {
  exits_.emplace_back(worker, exit);
  wake();
}

void SimulatedAgent::take(const Arrived& mail) {
  if (end_) return;
  if (mail.stream == controller_) {
    hear_controller(mail);
  } else if (mail.stream == asked_) {
    apply(mail.envelope ? core_.on_asked_agent(now(), *mail.envelope)
                        : core_.on_asked_agent_broken(now(), mail.why));
  } else if (const auto question = questions_.find(mail.stream); question != questions_.end()) {
    const int64_t number = question->second;
    if (!mail.envelope) questions_.erase(question);
    apply(mail.envelope ? core_.on_partner(now(), number, *mail.envelope)
                        : core_.on_partner_broken(now(), number, mail.why));
  } else if (mail.stream.value > 0 && !calls_.contains(mail.stream)) {
    // Who is at the other end shows in the first word.
    if (mail.envelope && (std::holds_alternative<PlanWanted>(mail.envelope->message) ||
                          std::holds_alternative<PartnerQuestion>(mail.envelope->message)))
      askers_.insert(mail.stream);
    if (askers_.contains(mail.stream)) {
      return apply(mail.envelope ? core_.on_asker(now(), mail.stream, *mail.envelope)
                                 : core_.on_asker_broken(now(), mail.stream));
    }
    apply(mail.envelope ? core_.on_worker(now(), mail.stream, *mail.envelope)
                        : core_.on_worker_broken(now(), mail.stream));
  }
}

void SimulatedAgent::hear_controller(const Arrived& mail) {
  if (!mail.envelope) return apply(core_.on_controller_broken(now()));
  if (const auto* const welcome = std::get_if<Welcome>(&mail.envelope->message)) {
    term_ = welcome->term.number;
    newest_term_ = std::max(newest_term_, term_);
    if (is_leaving_) network_.send(process(), controller_, {0, NodeLeaves{}});
  }
  const auto* const end = std::get_if<EndJob>(&mail.envelope->message);
  is_dismissed_ = is_dismissed_ || (end != nullptr && end->is_dismissal);
  const AgentActions actions = core_.on_controller(now(), *mail.envelope);
  if (term_ < newest_term_ && !actions.empty()) {
    events_.break_rule(absl::StrCat("the agent of node ", options_.core.node.value,
                                    " acts for term ", term_, " though it has met term ",
                                    newest_term_));
  }
  apply(actions);
}

// As Agent::judge_health() does.
bool SimulatedAgent::judge(std::vector<std::string> complaints) {
  if (!core_.is_idle()) return false;
  apply(core_.on_health(now(), std::move(complaints)));
  return true;
}

// As Agent::take_signals() does.
void SimulatedAgent::leave() {
  if (end_ || std::exchange(is_leaving_, true)) return;
  if (controller_.value > 0) network_.send(process(), controller_, {0, NodeLeaves{}});
}

// As Agent::take_orders() does.
void SimulatedAgent::look_for_controller_at(const std::string& address) {
  if (end_ || address == std::exchange(controller_address_, address)) return;
  if (controller_.value > 0) network_.close(process(), controller_);
  controller_ = StreamNumber(0);
  apply(core_.on_controller_broken(now()));
  wake();
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
    apply(core_.on_exit(now(), start, ended.second, WorkerLogTail{}));
  }
  if (!end_) apply(core_.on_time(now()));
}

absl::Duration SimulatedAgent::next_deadline() const {
  return end_ ? absl::InfiniteDuration() : core_.next_deadline();
}

void SimulatedAgent::apply(AgentActions actions) {
  for (const AgentAction& action : actions) {
    events_.watch(action);
    std::visit([this](const auto& a) { act(a); }, action);
  }
}

void SimulatedAgent::act(const AttachController&) {
  if (controller_.value > 0) network_.close(process(), controller_);
  controller_ = network_.call(process(), controller_address_);  // if empty, nobody listens there
  calls_.insert(controller_);
}

void SimulatedAgent::act(const ToController& send) {
  if (controller_.value == 0) return;
  Envelope envelope = send.envelope;
  if (auto* const hello = std::get_if<AgentHello>(&envelope.message)) hello->lines = lines();
  network_.send(process(), controller_, std::move(envelope));
}

void SimulatedAgent::act(const AskForPlan& ask) {
  act(StopAsking{});
  asked_ = network_.call(process(), ask.at);
  calls_.insert(asked_);
  network_.send(process(), asked_, {0, PlanWanted{ask.plan}});
}

void SimulatedAgent::act(const StopAsking&) {
  if (asked_.value > 0) network_.close(process(), std::exchange(asked_, StreamNumber(0)));
}

void SimulatedAgent::act(const AskPartner& ask) {
  const StreamNumber line = network_.call(process(), ask.at);
  calls_.insert(line);
  questions_[line] = ask.number;
  network_.send(process(), line, {0, ask.question});
}

void SimulatedAgent::act(const DropQuestion& drop) {
  const auto question =
      std::ranges::find(questions_, drop.number, [](const auto& one) { return one.second; });
  if (question == questions_.end()) return;
  network_.close(process(), question->first);
  questions_.erase(question);
}

void SimulatedAgent::act(const ToAskers& send) {
  for (const StreamNumber asker : send.to) network_.send(process(), asker, send.envelope);
}

void SimulatedAgent::act(const SpawnWorker& spawn) {
  const pid_t pid = host_.spawn(spawn, options_.core.node, options_.address);
  workers_[spawn.start] = pid;
  apply(core_.on_spawned(now(), spawn.start, pid));
}

void SimulatedAgent::act(const SpawnStandby& spawn) {
  const pid_t pid = host_.spawn_standby(options_.core.node, options_.address);
  workers_[spawn.number] = pid;
  apply(core_.on_spawned(now(), spawn.number, pid));
}

void SimulatedAgent::act(const PromoteStandby& promote) {
  const SpawnWorker& role = promote.role;
  auto standby = workers_.extract(promote.number);
  const pid_t pid = standby.mapped();
  standby.key() = role.start;
  workers_.insert(std::move(standby));
  network_.send(process(), promote.line,
                {role.start, TakeRole{role.start, role.rank, role.since, role.term, ""}});
  apply(core_.on_spawned(now(), role.start, pid));
}

void SimulatedAgent::act(const RelieveWorker& relieve) {
  network_.send(process(), relieve.line, {relieve.start, BecomeStandby{}});
}

void SimulatedAgent::act(const AdoptStandby& adopt) {
  auto worker = workers_.extract(adopt.start);
  worker.key() = adopt.number;
  workers_.insert(std::move(worker));
}

void SimulatedAgent::act(const SignalWorker& signal) {
  const auto worker = workers_.find(signal.start);
  if (worker == workers_.end()) return;
  if (signal.signal == SIGKILL) host_.kill(worker->second);
  if (signal.signal == SIGTERM) host_.drain(worker->second);
}

}  // namespace evermoe
