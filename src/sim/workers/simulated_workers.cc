#include "sim/workers/simulated_workers.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "comm/simulated/network_clock.h"
#include "control/agent/member_description.h"
#include "sim/simulated_fault.h"
#include "sim/workers/simulated_process.h"

namespace evermoe {
namespace {

constexpr absl::Duration kHeartbeat = absl::Milliseconds(100);
constexpr absl::Duration kStartDelayMax = absl::Milliseconds(20);

}  // namespace

SimulatedWorkers::SimulatedWorkers(SimulatedNetwork& network, ControlNetwork& control,
                                   const Topology& topology, const SimulatedShape& shape,
                                   OnExit on_exit)
    : network_(network),
      control_(control),
      topology_(topology),
      shape_(shape),
      on_exit_(std::move(on_exit)),
      rules_([this](int64_t pid) { return lives(process(static_cast<pid_t>(pid))); }) {
  found_.work.resize(static_cast<size_t>(topology.world_size()));
}

SimulatedWorkers::~SimulatedWorkers() = default;

bool SimulatedWorkers::lives(const Process& process) const {
  return !process.was_killed && process.number && network_.lives(*process.number);
}

// ---- life

SimulatedWorkers::Process& SimulatedWorkers::add_process(Node node, const std::string& agent) {
  processes_.push_back(std::make_unique<Process>());
  Process& process = *processes_.back();
  process.pid = static_cast<pid_t>(processes_.size());
  process.node = node;
  process.agent = agent;
  process.clock = std::make_unique<NetworkClock>(network_);
  ++found_.processes;
  return process;
}

pid_t SimulatedWorkers::spawn(const SpawnWorker& worker, Node node, const std::string& agent) {
  Process& process = add_process(node, agent);
  process.rank = worker.rank;
  process.since = worker.since;
  process.line = std::make_unique<Line>(*this, process);
  const auto delay = absl::Microseconds(static_cast<int64_t>(
      network_.draw(static_cast<uint64_t>(absl::ToInt64Microseconds(kStartDelayMax)))));
  network_.after(delay, [this, &process] {
    if (!process.was_killed) start(process);
  });
  return process.pid;
}

void SimulatedWorkers::start(Process& process) {
  note_start(
      process,
      network_.start(seat_rank(process.rank, process.seat, topology_.world_size()), process.since,
                     {[this, &process](Transport& inner) { train(process, inner); },
                      [this, &process](Transport& inner) { serve(process, inner); }},
                     Machine(process.node.value)));
}

void SimulatedWorkers::note_start(Process& process, ProcessNumber number) {
  process.number = number;
  network_.on_end(number, [this, &process] { on_end(process); });
  if (!doomed_.contains({process.rank, process.node})) return;
  network_.after(SimulatedFault::kDoomTime, [this, &process] { kill(process); });
}

void SimulatedWorkers::train(Process& process, Transport& inner) {
  come_to_life(process, inner);
  process.result = process.member->train();
  thread_ends(process, process.result);
}

void SimulatedWorkers::serve(Process& process, Transport& inner) {
  come_to_life(process, inner);
  const absl::Status served = process.member->serve();
  if (served.ok()) inner.close();
  thread_ends(process, served);
}

// By whichever of its threads runs first.
void SimulatedWorkers::come_to_life(Process& process, Transport& inner) {
  if (process.member != nullptr || process.threads < 2) return;
  if (process.transport == nullptr) process.transport = std::make_unique<SeatedTransport>(inner);
  MemberOptions options = member_options(shape_);
  process.stage_transport = std::make_unique<WatchedTransport>(*process.transport, kStageGroups,
                                                               *process.clock, options.sent);
  process.trainer = shape_.make_trainer(topology_, *process.stage_transport);
  options.time_waited = [&process] { return process.stage_transport->time_waited(); };
  process.member =
      std::make_unique<Member>(topology_, *process.transport, *process.trainer, *process.line,
                               *process.clock, std::move(options), observer(process));
  // Half of them have had no time for it before they got the role.
  const std::vector<Chunk> whole = std::exchange(process.whole, {});
  if (!whole.empty() && process.node.value % 2 == 0) {
    const absl::Status restored = process.member->restore_ahead(whole);
    CHECK(restored.ok() || absl::IsInvalidArgument(restored)) << restored;
    if (restored.ok()) found_.marks.insert("state restored ahead");
  }
  process.member->inherit(std::exchange(process.inherited, {}));
  attach(process);
}

// What the run hears of it; as MemberWorker has it (worker/member_worker.cc).
MemberObserver SimulatedWorkers::observer(Process& process) {
  MemberObserver observer;
  observer.on_resumed = [&process](Step step, const std::string& source) {
    WorkerReport ready{.kind = WorkerReport::Kind::kReady, .step = step, .text = source};
    if (const auto* const hash = dynamic_cast<const HashTrainer*>(process.trainer.get()))
      ready.trained_on = hash->trained_on();
    process.line->control().report(std::move(ready));
  };
  return observer;
}

// Likewise.
void SimulatedWorkers::attach(Process& process) {
  ControlHandlers handlers;
  handlers.describe = [this, &process] { return describe(process); };
  handlers.entered = [&process] {
    return process.member == nullptr ? View(0) : process.member->views().entered_view();
  };
  handlers.waits = [&process] {
    return process.stage_transport != nullptr && process.stage_transport->is_waited_in();
  };
  handlers.take_step_times = [&process] {
    return process.member == nullptr ? std::vector<StepTime>() : process.member->take_step_times();
  };
  handlers.take_link_times = [&process] {
    return process.member == nullptr ? std::vector<LinkTime>() : process.member->take_link_times();
  };
  handlers.on_registered = [&process] {
    if (process.member != nullptr) process.member->repeat_trouble();
  };
  handlers.on_order = [this, &process](ControllerMessage order) {
    give_order(process, std::move(order));
  };
  handlers.on_relieved = [this, &process](const BecomeStandby&) {
    process.is_relieved = true;
    give_order(process, ReleaseOrder{});
  };
  handlers.on_lost = [this, &process](const std::string&) { kill(process); };
  process.line->control().attach(process.pid, std::move(handlers), kHeartbeat);
}

void SimulatedWorkers::give_order(Process& process, ControllerMessage order) {
  if (!network_.lives(*process.number) || process.member == nullptr) return;
  process.member->enqueue(std::move(order));
  network_.deliver(*process.number,
                   {View(0), kServiceGroup, static_cast<uint32_t>(MessageKind::kWake)}, {});
}

MemberJoined SimulatedWorkers::describe(const Process& process) const {
  MemberJoined joined;
  if (process.member != nullptr) joined = evermoe::describe(*process.member);
  joined.address = seated_address(process.seat, SimulatedNetwork::address(*process.number));
  return joined;
}

// The last one takes the member down, while the transport is still there.
void SimulatedWorkers::thread_ends(Process& process, const absl::Status& status) {
  if (is_contradiction(status)) found_.contradictions.push_back(status.ToString());
  if (--process.threads > 0) return;
  const MemberWork work = process.member->work();
  found_.work[static_cast<size_t>(process.rank.value)] = work;
  found_.log_bytes_peak = std::max(found_.log_bytes_peak, process.member->log_bytes_peak());
  found_.records_left = std::max(found_.records_left, process.member->records_kept());
  found_.snapshot_bytes_peak =
      std::max(found_.snapshot_bytes_peak, process.member->snapshot_bytes_peak());
  if (work.copies_refused > 0) found_.marks.insert("unusable copy skipped");
  if (work.reorderings > 1) found_.marks.insert("new capture order");
  if (work.reordered_restores > 0) found_.marks.insert("restored in an order that was counted");
  if (process.trainer->experts_moved() >= Step(0)) found_.marks.insert("experts moved");
  process.member.reset();
  process.trainer.reset();
  control_.end(process.line->control().process());
}

void SimulatedWorkers::drain(pid_t pid) {
  if (auto* const hash = dynamic_cast<HashTrainer*>(process(pid).trainer.get()); hash != nullptr)
    hash->drain();
}

void SimulatedWorkers::kill(pid_t pid) { kill(process(pid)); }

void SimulatedWorkers::kill_all_of(const std::string& agent) {
  for (const auto& process : processes_) {
    if (process->agent == agent) kill(*process);
  }
}

void SimulatedWorkers::kill(Process& process) {
  if (process.was_killed || (process.number && !network_.lives(*process.number))) return;
  process.was_killed = true;
  if (!process.waited.empty() && network_.lives(process.waited.back()->number))
    network_.kill(process.waited.back()->number);
  if (process.line != nullptr) control_.end(process.line->control().process());
  if (process.number) return network_.kill(*process.number);
  network_.after(absl::ZeroDuration(), [this, &process] {
    process.standby.reset();
    tell_agent(process);
  });
}

void SimulatedWorkers::on_end(Process& process) {
  if (process.was_killed || !process.is_relieved) return tell_agent(process);
  process.number.reset();
  network_.after(absl::ZeroDuration(), [this, &process] {
    if (!process.was_killed) become_standby(process);
  });
}

void SimulatedWorkers::tell_agent(Process& process) {
  ExitStatus exit;
  if (process.was_killed)
    exit.signal = SIGKILL;
  else if (!process.result.ok())
    exit.code = 1;
  on_exit_(process.agent, process.pid, exit);
}

// ---- what is looked at

void SimulatedWorkers::watch(Process& process, const MemberMessage& message) {
  if (std::holds_alternative<Finished>(message)) note_finished(process);
  if (const auto* const progress = std::get_if<Progress>(&message))
    rules_.on_commit(process.pid, process.rank, progress->view);
  if (const auto* const told = std::get_if<CannotLeave>(&message)) {
    found_.marks.insert(told->why == CannotLeave::Why::kTooLate ? "role told too late to leave"
                                                                : "handed over in vain");
  }
  const PlanPointer plan = process.member == nullptr ? nullptr : process.member->views().plan();
  if (const auto* const progress = std::get_if<Progress>(&message))
    lanes_.on_commit(*plan, step_of(progress->newest));
  const auto* const milestone = std::get_if<Milestone>(&message);
  if (milestone != nullptr && milestone->kind == Milestone::Kind::kOpened)
    rules_.on_entered(process.pid, process.rank, milestone->view, *plan);
  if (milestone != nullptr && milestone->kind == Milestone::Kind::kRestored && plan->restart_all &&
      plan->view == milestone->view)
    lanes_.on_resumed(*plan, milestone->step);
}

void SimulatedWorkers::note_finished(const Process& process) {
  // What lives on under a former host has no end that counts: the files say how the job has ended.
  // But where they are its own, because all that was begun anew has been lost since, and who hosts
  // the job after that finds these processes, its samples are the job's.
  const bool is_given_up = lanes_.is_given_up(*process.member->views().plan());
  if (!is_given_up) found_.digests[process.rank] = shape_.digest_of(*process.trainer);
  if (is_given_up && found_.samples > 0) return;
  const auto* const hash = dynamic_cast<const HashTrainer*>(process.trainer.get());
  if (hash == nullptr || hash->rests()) return;
  found_.samples = hash->samples();
  found_.steps = hash->step().value;
}

// ---- faults

std::optional<pid_t> SimulatedWorkers::playing(Rank rank) const {
  for (auto at = processes_.rbegin(); at != processes_.rend(); ++at) {
    if ((*at)->rank == rank && (*at)->number && network_.lives(*(*at)->number)) return (*at)->pid;
  }
  return std::nullopt;
}

std::optional<Node> SimulatedWorkers::node_of(Rank rank) const {
  const std::optional<pid_t> pid = playing(rank);
  return pid ? std::optional(process(*pid).node) : std::nullopt;
}

SimulatedWorkers::Process* SimulatedWorkers::running_process() const {
  const auto number = network_.running_process();
  if (!number || !network_.lives(*number)) return nullptr;
  const auto found = std::find_if(processes_.begin(), processes_.end(),
                                  [&](const auto& p) { return p->number == *number; });
  return found == processes_.end() ? nullptr : found->get();
}

std::optional<Rank> SimulatedWorkers::running() const {
  const Process* const process = running_process();
  return process == nullptr ? std::nullopt : std::optional(process->rank);
}

// No two steps take equally long.
void SimulatedWorkers::compute() {
  const Process* const process = running_process();
  if (process == nullptr || shape_.computing == absl::ZeroDuration()) return;
  constexpr uint64_t kPercentMost = 10;
  const auto more = static_cast<double>(network_.draw(kPercentMost));
  network_.pause(shape_.computing * process->slow_by * (1 + more / 100));
}

void SimulatedWorkers::slow_down(pid_t pid, double factor) {
  if (lives(process(pid))) process(pid).slow_by = factor;
}

void SimulatedWorkers::stop(pid_t pid) {
  control_.stop(process(pid).line->control().process());
  network_.stop(*process(pid).number);
}

void SimulatedWorkers::stop_all_on(Node node, absl::Duration time, std::function<void()> on_back) {
  for (const auto& process : processes_) {
    if (process->node != node || !process->number || !network_.lives(*process->number)) continue;
    const ControlProcess at_agent = process->line->control().process();
    if (control_.is_stopped(at_agent)) continue;
    stop(process->pid);
    network_.after(time, [this, at_agent, number = *process->number, on_back] {
      if (!network_.lives(number)) return;
      on_back();
      network_.go_on(number);
      control_.go_on(at_agent);
    });
  }
}

void SimulatedWorkers::doom(Rank rank, Node node) {
  doomed_.insert({rank, node});
  for (const auto& process : processes_) {
    if (process->rank == rank && process->node == node) kill(*process);
  }
}

void SimulatedWorkers::cut(pid_t a, pid_t b) {
  network_.cut(*process(a).number, *process(b).number);
}

void SimulatedWorkers::corrupt_copies(Rank owner, std::optional<Rank> only_at) {
  for (const auto& each : processes_) {
    if (only_at && each->rank != *only_at) continue;
    if (each->rank != owner && !each->was_killed && each->member != nullptr)
      each->member->corrupt_copies(owner);
  }
}

}  // namespace evermoe
