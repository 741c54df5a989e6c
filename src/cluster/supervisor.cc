#include "cluster/supervisor.h"

#include <poll.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "cluster/signal_inbox.h"
#include "cluster/worker_process.h"
#include "cluster/workers_file.h"
#include "comm/rendezvous.h"

namespace evermoe {
namespace {

constexpr char kHost[] = "127.0.0.1";
// The core hears a Tick at least so often, so that it can tell its own standstill from a worker's.
constexpr absl::Duration kTickPeriod = absl::Milliseconds(200);
constexpr size_t kShownLinesMax = 8;

class Supervisor {
 public:
  Supervisor(Files& files, Clock& clock, const SupervisorOptions& options, RunObserver& observer,
             SignalInbox& signals)
      : files_(files), clock_(clock), options_(options), observer_(observer), signals_(signals), core_(options.core) {}

  RunOutcome run() {
    write_workers();
    while (!over_) {
      deliver(Tick{});
      if (!over_) wait_and_listen();
    }
    workers_.clear();
    write_workers();
    return outcome();
  }

 private:
  void wait_and_listen();
  void listen_to(size_t rank);
  void take_reports(size_t rank);
  void deliver(SupervisorEvent event);

  void apply(const StartAll& start);
  void apply(const SignalAll& signal);
  void apply(const KillAll& kill);
  void apply(const ShowLog& show);
  void apply(const Say& say) { observer_.on_say(say.line); }
  void apply(const Finish& finish);

  WorkerProcessOptions worker_options(size_t rank) const;
  const std::string& role(size_t rank) const { return options_.core.blame.role_names[rank]; }
  size_t world_size() const { return options_.core.blame.role_names.size(); }
  void write_workers();
  RunOutcome outcome() const;

  Files& files_;
  Clock& clock_;
  const SupervisorOptions& options_;
  RunObserver& observer_;
  SignalInbox& signals_;
  SupervisorCore core_;
  std::unique_ptr<RendezvousServer> rendezvous_;
  // By rank; those that have ended stay until the next attempt, for their logs.
  std::vector<std::unique_ptr<WorkerProcess>> workers_;
  std::vector<bool> ended_;
  std::deque<SupervisorEvent> events_;  // that came up while an event was handled
  bool delivering_ = false;
  bool workers_file_broken_ = false;
  bool over_ = false;
  Finish finish_;
};

void Supervisor::wait_and_listen() {
  std::vector<pollfd> watched{{signals_.fd(), POLLIN, 0}};
  for (size_t rank = 0; rank < workers_.size(); ++rank) {
    if (workers_[rank] == nullptr || ended_[rank]) continue;
    watched.push_back({workers_[rank]->exit_fd(), POLLIN, 0});
    if (workers_[rank]->report_fd() >= 0) watched.push_back({workers_[rank]->report_fd(), POLLIN, 0});
  }
  const absl::Duration left = std::clamp(core_.next_deadline() - clock_.now(), absl::ZeroDuration(), kTickPeriod);
  // Rounded up, so that the deadline has passed after the wait.
  ::poll(watched.data(), watched.size(), static_cast<int>(absl::ToInt64Milliseconds(left + absl::Nanoseconds(999'999))));
  for (const int number : signals_.take()) deliver(SignalReceived{number});
  for (size_t rank = 0; rank < workers_.size() && !over_; ++rank) listen_to(rank);
}

// Asks for the end first and takes the reports after it: so no report comes after the end.
void Supervisor::listen_to(size_t rank) {
  if (workers_[rank] == nullptr || ended_[rank]) return;
  const std::optional<ExitStatus> exit = workers_[rank]->try_wait();
  take_reports(rank);
  if (!exit || over_) return;
  ended_[rank] = true;
  write_workers();
  const std::vector<std::string> words = workers_[rank]->last_lines(1);
  deliver(WorkerExited{Rank(static_cast<int32_t>(rank)), *exit, words.empty() ? "" : words[0]});
}

void Supervisor::take_reports(size_t rank) {
  const auto reports = workers_[rank]->take_reports();
  if (!reports.ok()) {
    return deliver(WorkerUnreadable{Rank(static_cast<int32_t>(rank)), std::string(reports.status().message())});
  }
  for (const WorkerReport& report : *reports) {
    if (over_) return;
    observer_.on_report(report);
    deliver(WorkerReported{report});
  }
}

// Events that actions cause are delivered after the actions of the event at hand.
void Supervisor::deliver(SupervisorEvent event) {
  events_.push_back(std::move(event));
  if (delivering_) return;
  delivering_ = true;
  while (!events_.empty() && !over_) {
    const SupervisorEvent next = std::move(events_.front());
    events_.pop_front();
    for (const SupervisorAction& action : core_.step(clock_.now(), next)) {
      std::visit([this](const auto& a) { apply(a); }, action);
    }
  }
  delivering_ = false;
}

void Supervisor::apply(const StartAll&) {
  workers_.clear();
  workers_.resize(world_size());
  ended_.assign(world_size(), false);
  absl::StatusOr<std::unique_ptr<RendezvousServer>> server =
      RendezvousServer::start(kHost, 0, static_cast<int>(world_size()));
  if (server.ok()) rendezvous_ = *std::move(server);
  for (size_t rank = 0; rank < world_size(); ++rank) {
    absl::Status status = server.status();
    if (status.ok()) {
      auto worker = WorkerProcess::start(worker_options(rank));
      status = worker.status();
      if (worker.ok()) workers_[rank] = *std::move(worker);
    }
    if (!status.ok()) deliver(WorkerNotStarted{Rank(static_cast<int32_t>(rank)), std::string(status.message())});
  }
  write_workers();
}

WorkerProcessOptions Supervisor::worker_options(size_t rank) const {
  WorkerProcessOptions worker;
  worker.program = options_.program;
  worker.arguments = options_.arguments;
  worker.arguments.insert(worker.arguments.end(),
                          {"--rank", absl::StrCat(rank), "--world-size", absl::StrCat(world_size()), "--rendezvous",
                           absl::StrCat(kHost, ":", rendezvous_->port())});
  worker.environment = options_.environment;
  worker.log_path = join_path(options_.out, absl::StrCat("logs/worker-", role(rank), ".log"));
  worker.rank = Rank(static_cast<int32_t>(rank));
  worker.kept_fd = options_.kept_fd;
  return worker;
}

void Supervisor::apply(const SignalAll& signal) {
  for (size_t rank = 0; rank < workers_.size(); ++rank) {
    if (workers_[rank] != nullptr && !ended_[rank]) workers_[rank]->signal(signal.signal);
  }
}

void Supervisor::apply(const KillAll&) {
  for (const auto& worker : workers_) {
    if (worker != nullptr) worker->kill();
  }
}

void Supervisor::apply(const ShowLog& show) {
  const auto rank = static_cast<size_t>(show.rank.value);
  if (rank >= workers_.size() || workers_[rank] == nullptr) return;
  const std::vector<std::string> lines = workers_[rank]->last_lines(kShownLinesMax);
  if (!lines.empty()) observer_.on_log(role(rank), workers_[rank]->log_path(), lines);
}

void Supervisor::apply(const Finish& finish) {
  finish_ = finish;
  over_ = true;
}

void Supervisor::write_workers() {
  std::map<std::string, pid_t> pids;
  for (size_t rank = 0; rank < workers_.size(); ++rank) {
    if (workers_[rank] != nullptr && !ended_[rank]) pids[role(rank)] = workers_[rank]->pid();
  }
  const absl::Status status = write_workers_file(files_, join_path(options_.out, "workers.json"), pids);
  // Nothing depends on the file: a full disk is said once and does not stop the job.
  if (!status.ok() && !workers_file_broken_) observer_.on_say(absl::StrCat("warning: ", status.message()));
  workers_file_broken_ = !status.ok();
}

RunOutcome Supervisor::outcome() const {
  RunOutcome outcome;
  outcome.status = finish_.status;
  outcome.exit_code = finish_.exit_code;
  outcome.reason = finish_.reason;
  outcome.steps = core_.newest_step();
  outcome.restarts = core_.restarts();
  outcome.failures = core_.failures();
  return outcome;
}

}  // namespace

absl::StatusOr<RunOutcome> supervise(Files& files, Clock& clock, const SupervisorOptions& options,
                                     RunObserver& observer) {
  RETURN_IF_ERROR(files.create_directories(join_path(options.out, "logs")));
  ASSIGN_OR_RETURN(const std::unique_ptr<SignalInbox> signals, SignalInbox::open());
  return Supervisor(files, clock, options, observer, *signals).run();
}

}  // namespace evermoe
