#include "control/agent/agent.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/fingerprint.h"
#include "base/log.h"
#include "env/process_memory.h"
#include "env/processor_wait.h"

namespace evermoe {
namespace {

constexpr size_t kAgentArrivedMax = 1 << 20;
constexpr size_t kAgentOrdersMax = 1 << 10;
constexpr absl::Duration kAgentSleepMax = absl::Seconds(1);
constexpr size_t kShownLinesMax = 8;
constexpr absl::Duration kListenAgain = absl::Seconds(10);  // for other agents, where it failed
// Of the address inside the machine at which other agents call.
constexpr char kLinesEnding[] = "-lines";

// Where process numbers come again, as in containers, times do not.
int64_t incarnation_of(const AgentCoreOptions& options, absl::Duration now) {
  const std::string name =
      absl::StrCat(options.host, " ", options.pid, " ", absl::ToInt64Nanoseconds(now));
  return static_cast<int64_t>(fingerprint(std::as_bytes(std::span(name))).low >>
                              1);  // not negative
}

AgentOptions completed(AgentOptions options, absl::Duration now) {
  options.core.waits_for_health = options.measure != nullptr;
  char name[256] = {};
  if (::gethostname(name, sizeof(name) - 1) == 0) options.core.host = name;
  options.core.starved = processor_wait;
  options.core.incarnation = incarnation_of(options.core, now);
  return options;
}

}  // namespace

Agent::Agent(AgentOptions options, Clock& clock)
    : options_(completed(std::move(options), clock.now())),
      clock_(clock),
      core_(options_.core, clock.now()),
      arrived_(kAgentArrivedMax),
      orders_(kAgentOrdersMax),
      controller_address_(options_.controller),
      lines_(options_.keys, options_.address + kLinesEnding) {
  if (options_.measure) health_.emplace(options_.measure, options_.health.answer_max);
}

Agent::~Agent() = default;

absl::StatusOr<std::unique_ptr<Agent>> Agent::start(AgentOptions options, Clock& clock) {
  std::unique_ptr<Agent> agent(new Agent(std::move(options), clock));
  ASSIGN_OR_RETURN(agent->listener_, ControlListener::start(agent->options_.address, *agent));
  return agent;
}

absl::Status Agent::run() {
  while (!end_) {
    apply(core_.on_time(clock_.now()));
    if (!end_) wait();
    // Asked for before the mail is taken, so that the last words of a worker come before its end.
    take_signals();
    take_orders();
    look_at_health();
    const auto ended = ended_workers();
    take_mail();
    take_mail_of_agents();
    for (const auto& [start, exit] : ended) bury(start, exit);
  }
  return end_->ok ? absl::OkStatus() : Timeout(end_->reason);
}

void Agent::wait() {
  std::vector<pollfd> watched{
      {arrived_.fd(), POLLIN, 0}, {orders_.fd(), POLLIN, 0}, {lines_.fd(), POLLIN, 0}};
  if (options_.signals != nullptr) watched.push_back({options_.signals->fd(), POLLIN, 0});
  if (health_) watched.push_back({health_->fd(), POLLIN, 0});
  for (const auto& [start, worker] : workers_) {
    watched.push_back({worker->exit_fd(), POLLIN, 0});
  }
  const absl::Duration left =
      std::clamp(core_.next_deadline() - clock_.now(), absl::ZeroDuration(), kAgentSleepMax);
  // Rounded up, so that the deadline has passed after the wait.
  ::poll(watched.data(), watched.size(),
         static_cast<int>(absl::ToInt64Milliseconds(left + absl::Nanoseconds(999'999))));
}

// ---- streams: those of workers are numbered upwards from 1, the calls to the controller downwards

void Agent::on_envelope(StreamNumber stream, Envelope envelope) noexcept {
  arrived_.put({stream, std::move(envelope), ""});
}
void Agent::on_broken(StreamNumber stream, const std::string& why) noexcept {
  arrived_.put({stream, std::nullopt, why});
}

void Agent::take_mail() {
  for (const Arrived& one : arrived_.take()) {
    const absl::Duration now = clock_.now();
    if (one.stream.value > 0) {
      apply(one.envelope ? core_.on_worker(now, one.stream, *one.envelope)
                         : core_.on_worker_broken(now, one.stream));
    } else if (one.stream.value == -calls_) {
      if (one.envelope)
        hear_controller(*one.envelope);
      else
        on_controller_broken(one.why);
    }
  }
}

void Agent::take_mail_of_agents() {
  for (const AgentLines::Arrived& one : lines_.take()) {
    const absl::Duration now = clock_.now();
    if (one.is_of_caller()) {
      apply(one.envelope ? core_.on_asker(now, one.line, *one.envelope)
                         : core_.on_asker_broken(now, one.line));
    } else if (one.line == asked_) {
      apply(one.envelope ? core_.on_asked_agent(now, *one.envelope)
                         : core_.on_asked_agent_broken(now, one.why));
    } else if (const auto question = questions_.find(one.line); question != questions_.end()) {
      const int64_t number = question->second;
      if (!one.envelope) questions_.erase(question);
      apply(one.envelope ? core_.on_partner(now, number, *one.envelope)
                         : core_.on_partner_broken(now, number, one.why));
    }
  }
}

void Agent::take_signals() {
  if (options_.signals == nullptr) return;
  for (const int number : options_.signals->take()) {
    log_info(absl::StrCat("signal ", number));
    const StopRequest::Meaning meaning = stop_.on_signal(clock_.now());
    if (meaning == StopRequest::Meaning::kQuit) {
      quit_signal_ = number;
      end_ = QuitAgent{false, absl::StrCat("signal ", number, " again: quit at once")};
    } else if (meaning == StopRequest::Meaning::kDrain) {
      is_leaving_ = number == SIGTERM || number == SIGUSR1;
    }
    if (meaning == StopRequest::Meaning::kDrain && controller_ != nullptr) send_wish();
  }
}

void Agent::send_wish() {
  const bool ends_job =
      !is_leaving_ || (options_.job_goes_with_it != nullptr && options_.job_goes_with_it());
  if (is_leaving_ && ends_job)
    log_info("no other machine could host the job: it is drained before this one leaves");
  controller_->send({0, ends_job ? ControlMessage(Drain{}) : ControlMessage(NodeLeaves{})});
}

void Agent::look_for_controller_at(std::string address) { orders_.put({std::move(address), ""}); }

void Agent::quit(std::string why) { orders_.put({std::nullopt, std::move(why)}); }

void Agent::take_orders() {
  for (const Order& order : orders_.take()) {
    if (!order.controller) {
      if (!end_) end_ = QuitAgent{false, order.quit_why};
    } else if (*order.controller != std::exchange(controller_address_, *order.controller)) {
      controller_.reset();
      ++calls_;  // what has come of the former call is nothing to anybody
      on_controller_broken("it is elsewhere now: " + *order.controller);
    }
  }
}

// ---- health

// What runs here takes memory that is not missing, and is not ended for its machine's sake: a node
// is measured while it plays no role.
void Agent::look_at_health() {
  if (!health_) return;
  const absl::Duration now = clock_.now();
  if (core_.is_idle()) health_->look(now);
  if (auto health = health_->take(now)) {
    measured_ = *std::move(health);
    judge_health();
    if (core_.is_idle()) health_->on_verdict(now, complaint_.empty());
  }
}

// A role that is started here is played by one of them, in the memory that it has.
int64_t Agent::memory_of_standbys() const {
  int64_t bytes = 0;
  for (const auto& [number, process] : workers_) {
    if (AgentStandbys::is_standby(number)) bytes += process_memory(process->pid());
  }
  return bytes;
}

void Agent::judge_health() {
  if (!measured_ || !core_.is_idle()) return;
  NodeHealth health = *measured_;
  if (health.memory_bytes) *health.memory_bytes += memory_of_standbys();
  health.clock = clock_difference_;
  std::vector<std::string> complaints = judge(health, options_.health);
  const std::string text = absl::StrJoin(complaints, "; ");
  if (text.empty() != complaint_.empty()) {
    text.empty() ? log_info("this machine is fit again")
                 : log_warning("this machine is not fit to play a role: " + text);
  }
  complaint_ = text;
  apply(core_.on_health(clock_.now(), std::move(complaints)));
}

void Agent::note_date(const Welcome& welcome) {
  if (!health_ || welcome.wall_clock == absl::ZeroDuration()) return;
  // A step of the own date on the way is no round trip.
  const absl::Duration date = clock_.wall_now() - absl::UnixEpoch();
  clock_difference_ = clock_difference(date - (clock_.now() - called_), welcome.wall_clock, date);
  judge_health();
}

// ----

void Agent::hear_controller(const Envelope& envelope) {
  if (const auto* const end = std::get_if<EndJob>(&envelope.message)) job_end_ = *end;
  if (const auto* const welcome = std::get_if<Welcome>(&envelope.message)) {
    log_info(absl::StrCat("a controller answers: number ", welcome->life, " of term ",
                          welcome->term.number));
    last_break_.clear();
    if (stop_.is_drain_wanted()) send_wish();
    note_date(*welcome);
  }
  if (const auto line = incident_lines_.on_envelope(envelope.message)) log_info(*line);
  if (const auto* const kill = std::get_if<KillWorker>(&envelope.message)) {
    log_info(
        absl::StrCat("the worker of rank ", kill->rank.value,
                     kill->becomes_standby ? " becomes a standby: " : " is killed: ", kill->why));
  }
  apply(core_.on_controller(clock_.now(), envelope));
}

void Agent::on_controller_broken(const std::string& why) {
  if (why != last_break_) log_info(absl::StrCat("no line to the controller: ", why));
  last_break_ = why;
  apply(core_.on_controller_broken(clock_.now()));
}

// ---- processes

std::vector<std::pair<int64_t, ExitStatus>> Agent::ended_workers() {
  std::vector<std::pair<int64_t, ExitStatus>> ended;
  for (const auto& [start, worker] : workers_) {
    if (const std::optional<ExitStatus> exit = worker->try_wait()) ended.emplace_back(start, *exit);
  }
  return ended;
}

void Agent::bury(int64_t start, const ExitStatus& exit) {
  const std::unique_ptr<WorkerProcess> worker = std::move(workers_.extract(start).mapped());
  note_workers();
  const WorkerLogTail words{worker->rank(), worker->log_path(), worker->last_lines(kShownLinesMax)};
  apply(core_.on_exit(clock_.now(), start, exit, words));
}

// ---- actions

void Agent::apply(AgentActions actions) {
  for (const AgentAction& action : actions) {
    std::visit([this](const auto& a) { act(a); }, action);
  }
  has_controller_ = core_.has_controller();
}

void Agent::act(const AttachController&) {
  if (controller_ != nullptr && last_break_.empty()) log_warning("the controller is silent");
  controller_.reset();
  const StreamNumber number(-++calls_);
  called_ = clock_.now();
  if (controller_address_.empty())
    on_broken(number, "nobody hosts the job");
  else
    controller_.reset(new ControlCall(controller_address_, number, *this, options_.keys));
}

void Agent::act(const ToController& send) {
  if (controller_ == nullptr) return;
  Envelope envelope = send.envelope;
  if (auto* const hello = std::get_if<AgentHello>(&envelope.message)) hello->lines = own_lines();
  // A controller that does not read for so long is noticed by its silence.
  if (!controller_->send(envelope)) log_warning("the controller does not read");
}

// Names are looked up before there is a worker that could be kept waiting, and not with every
// attempt to find a controller.
std::string Agent::own_lines() {
  const absl::Duration now = clock_.now();
  if (!lines_.is_listening() && (!workers_.empty() || now < listen_again_)) return "";
  std::string address = lines_.listen(controller_address_);
  if (address.empty()) listen_again_ = now + kListenAgain;
  return address;
}

void Agent::act(const AskForPlan& ask) {
  log_info(absl::StrCat("asks ", ask.at, " for the plan of view ", ask.plan.view.value));
  lines_.hang_up(asked_);
  asked_ = lines_.call(ask.at, {0, PlanWanted{ask.plan}});
}

void Agent::act(const StopAsking& stop) {
  if (!stop.why.empty())
    log_info(absl::StrCat("asks the controller for the plan instead: ", stop.why));
  lines_.hang_up(std::exchange(asked_, StreamNumber(0)));
}

void Agent::act(const ToAskers& send) {
  if (std::holds_alternative<PlanUpdate>(send.envelope.message))
    log_info(absl::StrCat("tells a plan to ", send.to.size(), " other agents"));
  for (const StreamNumber asker : send.to) lines_.send(asker, send.envelope);
}

void Agent::act(const AskPartner& ask) {
  questions_[lines_.call(ask.at, {0, ask.question})] = ask.number;
}

void Agent::act(const DropQuestion& drop) {
  const auto question =
      std::ranges::find(questions_, drop.number, [](const auto& one) { return one.second; });
  if (question == questions_.end()) return;
  lines_.hang_up(question->first);
  questions_.erase(question);
}

void Agent::act(const ToWorker& send) { listener_->send(send.to, send.envelope); }

void Agent::act(const CutWorker& cut) { listener_->close(cut.stream); }

void Agent::act(const SpawnWorker& spawn) {
  start_process(
      spawn.start, spawn.rank,
      absl::StrCat("worker of rank ", spawn.rank.value, " since view ", spawn.since.value),
      options_.command(spawn, listener_->address()));
}

void Agent::act(const SpawnStandby& spawn) {
  const Rank none(-1);
  start_process(spawn.number, none, "standby",
                options_.standby_command(spawn, listener_->address()));
}

void Agent::start_process(int64_t number, Rank rank, const std::string& what,
                          const WorkerCommand& command) {
  WorkerProcessOptions process;
  process.program = command.program;
  process.arguments = command.arguments;
  process.log_path = command.log_path;
  process.rank = rank;
  process.kept_fd = options_.kept_fd;
  auto worker = WorkerProcess::start(process);
  const absl::Duration now = clock_.now();
  if (!worker.ok())
    return apply(core_.on_not_spawned(now, number, std::string(worker.status().message())));
  const pid_t pid = (*worker)->pid();
  log_info(absl::StrCat(what, ": process ", pid));
  workers_[number] = *std::move(worker);
  note_workers();
  apply(core_.on_spawned(now, number, pid));
}

void Agent::note_workers() { has_workers_ = !workers_.empty() && workers_.rbegin()->first > 0; }

// One that has just died dies as the worker.
void Agent::act(const PromoteStandby& promote) {
  const SpawnWorker& role = promote.role;
  auto standby = workers_.extract(promote.number);
  WorkerProcess& process = *standby.mapped();
  const pid_t pid = process.pid();
  log_info(absl::StrCat("worker of rank ", role.rank.value, " since view ", role.since.value,
                        ": standby, process ", pid));
  process.take_role(role.rank, options_.command(role, listener_->address()).log_path);
  listener_->send(promote.line, {role.start, TakeRole{role.start, role.rank, role.since, role.term,
                                                      process.log_path()}});
  standby.key() = role.start;
  workers_.insert(std::move(standby));
  note_workers();
  apply(core_.on_spawned(clock_.now(), role.start, pid));
}

void Agent::act(const RelieveWorker& relieve) {
  WorkerProcess& process = *workers_.at(relieve.start);
  process.take_role(process.rank(),
                    options_.standby_command({relieve.number}, listener_->address()).log_path);
  listener_->send(relieve.line, {relieve.start, BecomeStandby{process.log_path()}});
}

void Agent::act(const AdoptStandby& adopt) {
  auto worker = workers_.extract(adopt.start);
  log_info(absl::StrCat("worker of rank ", worker.mapped()->rank().value, ": a standby, process ",
                        worker.mapped()->pid()));
  worker.mapped()->take_role(Rank(-1), worker.mapped()->log_path());
  worker.key() = adopt.number;
  workers_.insert(std::move(worker));
  note_workers();
}

void Agent::act(const SignalWorker& signal) {
  const auto worker = workers_.find(signal.start);
  if (worker == workers_.end()) return;
  if (signal.signal == SIGKILL)
    worker->second->kill();
  else
    worker->second->signal(signal.signal);
}

void Agent::act(const QuitAgent& quit) { end_ = quit; }

}  // namespace evermoe
