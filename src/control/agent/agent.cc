#include "control/agent/agent.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/log.h"

namespace evermoe {
namespace {

constexpr size_t kArrivedMax = 1 << 20;
constexpr absl::Duration kSleepMax = absl::Seconds(1);
constexpr size_t kShownLinesMax = 8;

}  // namespace

Agent::Agent(AgentOptions options, Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      core_(options_.core, clock.now()),
      arrived_(kArrivedMax) {}

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
    const auto ended = ended_workers();
    take_mail();
    for (const auto& [start, exit] : ended) bury(start, exit);
  }
  return end_->ok ? absl::OkStatus() : Timeout(end_->reason);
}

void Agent::wait() {
  std::vector<pollfd> watched{{arrived_.fd(), POLLIN, 0}};
  if (options_.signals != nullptr) watched.push_back({options_.signals->fd(), POLLIN, 0});
  for (const auto& [start, worker] : workers_) {
    watched.push_back({worker->exit_fd(), POLLIN, 0});
  }
  const absl::Duration left =
      std::clamp(core_.next_deadline() - clock_.now(), absl::ZeroDuration(), kSleepMax);
  // Rounded up, so that the deadline has passed after the wait.
  ::poll(watched.data(), watched.size(),
         static_cast<int>(absl::ToInt64Milliseconds(left + absl::Nanoseconds(999'999))));
}

// ---- streams: those of workers are numbered upwards from 1, the calls to the controller downwards

void Agent::on_envelope(StreamNumber stream, Envelope envelope) {
  arrived_.put({stream, std::move(envelope), ""});
}
void Agent::on_broken(StreamNumber stream, const std::string& why) {
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

void Agent::take_signals() {
  if (options_.signals == nullptr) return;
  for (const int number : options_.signals->take()) {
    log_info(absl::StrCat("signal ", number));
    const StopRequest::Meaning meaning = stop_.on_signal(clock_.now());
    if (meaning == StopRequest::Meaning::kQuit)
      end_ = QuitAgent{false, absl::StrCat("signal ", number, " again: quit at once")};
    else if (meaning == StopRequest::Meaning::kDrain && controller_ != nullptr)
      controller_->send({0, Drain{}});
  }
}

void Agent::hear_controller(const Envelope& envelope) {
  if (const auto* const end = std::get_if<EndJob>(&envelope.message)) job_end_ = *end;
  if (const auto* const welcome = std::get_if<Welcome>(&envelope.message)) {
    log_info(absl::StrCat("a controller answers: number ", welcome->life, " of term ",
                          welcome->term.number));
    last_break_.clear();
    if (stop_.is_drain_wanted()) controller_->send({0, Drain{}});
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
  const WorkerLogTail words{worker->rank(), worker->log_path(), worker->last_lines(kShownLinesMax)};
  apply(core_.on_exit(clock_.now(), start, exit, words));
}

// ---- actions

void Agent::apply(AgentActions actions) {
  for (const AgentAction& action : actions) {
    std::visit([this](const auto& a) { act(a); }, action);
  }
}

void Agent::act(const AttachController&) {
  if (controller_ != nullptr && last_break_.empty()) log_warning("the controller is silent");
  controller_.reset();
  controller_.reset(new ControlCall(options_.controller, StreamNumber(-++calls_), *this));
}

void Agent::act(const ToController& send) {
  // A controller that does not read for so long is noticed by its silence.
  if (!controller_->send(send.envelope)) log_warning("the controller does not read");
}

void Agent::act(const ToWorker& send) { listener_->send(send.to, send.envelope); }

void Agent::act(const CutWorker& cut) { listener_->close(cut.stream); }

void Agent::act(const SpawnWorker& spawn) {
  const WorkerCommand command = options_.command(spawn, listener_->address());
  WorkerProcessOptions process;
  process.program = command.program;
  process.arguments = command.arguments;
  process.log_path = command.log_path;
  process.rank = spawn.rank;
  process.kept_fd = options_.kept_fd;
  auto worker = WorkerProcess::start(process);
  const absl::Duration now = clock_.now();
  if (!worker.ok())
    return apply(core_.on_not_spawned(now, spawn.start, std::string(worker.status().message())));
  const pid_t pid = (*worker)->pid();
  log_info(absl::StrCat("worker of rank ", spawn.rank.value, " since view ", spawn.since.value,
                        ": process ", pid));
  workers_[spawn.start] = *std::move(worker);
  apply(core_.on_spawned(now, spawn.start, pid));
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
