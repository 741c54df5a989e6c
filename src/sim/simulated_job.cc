#include "sim/simulated_job.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "control/wire/control_codec.h"
#include "sim/worker_line.h"

namespace evermoe {
namespace {

constexpr absl::Duration kHeartbeat = absl::Milliseconds(100);
constexpr absl::Duration kStartDelayMax = absl::Milliseconds(20);
constexpr absl::Duration kSlowDelayMax = absl::Milliseconds(150);

// The simulated network's time, as a Clock for members.
class NetworkClock final : public Clock {
 public:
  explicit NetworkClock(SimulatedNetwork& network) : network_(network) {}
  absl::Duration now() override { return network_.now(); }
  void sleep_until(absl::Duration) override { CHECK(false) << "members wait in their transport"; }
  absl::Duration thread_time() override { return absl::ZeroDuration(); }
  absl::Time wall_now() override { return absl::UnixEpoch() + network_.now(); }

 private:
  SimulatedNetwork& network_;
};

ControllerOptions controller_options(const SimulatedShape& shape) {
  ControllerOptions options;
  options.nodes = shape.nodes;
  options.spares = shape.spares;
  options.copies = shape.copies;
  options.is_protected = shape.is_protected;
  options.restart_all_allowed = shape.restart_all_allowed;
  options.adoption = absl::Milliseconds(200);
  options.grace = absl::Milliseconds(50);
  options.start_max = absl::Seconds(2);
  options.report_max = absl::Milliseconds(500);
  options.silence_max = absl::Milliseconds(450);
  options.step_max = absl::Milliseconds(600);
  options.load_max = absl::Milliseconds(900);
  options.probe_min = absl::Milliseconds(150);
  return options;
}

// A tenth of what they are in production, or less, as those of the controller.
ControlPlaneOptions plane_options(const SimulatedShape& shape) {
  ControlPlaneOptions options;
  options.controller = controller_options(shape);
  options.relay.beat = options.agent.beat = absl::Milliseconds(50);
  options.relay.silence_max = options.agent.silence_max = absl::Seconds(1);
  options.relay.own_standstill = options.agent.own_standstill = absl::Milliseconds(200);
  options.agent.retry = absl::Milliseconds(5);
  options.agent.registering_max = absl::Milliseconds(100);
  options.agent.away_max = absl::Seconds(30);
  options.ends_lost_nodes = shape.ends_lost_nodes;
  return options;
}

MemberOptions member_options(const SimulatedShape& shape) {
  MemberOptions options;
  options.is_protected = shape.is_protected;
  options.slots = shape.window;
  options.period = std::max(shape.period, shape.window);
  options.ordering = shape.ordering;
  if (shape.changes_windows) {
    options.wanted_slots = [asked = 0](const OperatorOrdering&) mutable {
      return 1 + (++asked * 7 / 3) % 4;
    };
  }
  options.log_bytes_max = shape.log_bytes_max;
  options.snapshot_bytes_max = shape.snapshot_bytes_max;
  options.copies.chunk_bytes_max = shape.chunk_bytes_max;
  options.copies.bytes_per_second = shape.copy_bytes_per_second;
  options.deadline = absl::Seconds(5);
  options.ask_again = absl::Milliseconds(100);
  return options;
}

}  // namespace

std::string to_string(const SimulatedFault& d) {
  using Kind = SimulatedFault::Kind;
  const char* const kinds[] = {"kill worker",
                               "stop worker",
                               "cut",
                               "corrupt copies of",
                               "pause",
                               "hang",
                               "kill node",
                               "stop agent",
                               "stop node",
                               "kill controller",
                               "stop controller",
                               "cut the line of node",
                               "mute node",
                               "deafen node",
                               "slow the line of node",
                               "break the line of node"};
  std::string text = kinds[static_cast<int>(d.kind)];
  const bool is_about_node = d.kind >= Kind::kKillNode && d.kind != Kind::kKillController &&
                             d.kind != Kind::kStopController;
  if (is_about_node)
    absl::StrAppend(&text, " ", d.node.value < 0 ? "each" : absl::StrCat(d.node.value));
  if (d.kind < Kind::kKillNode) absl::StrAppend(&text, " ", d.rank.value);
  if (d.kind == Kind::kCut) absl::StrAppend(&text, " from ", d.other.value);
  if (d.lasts > absl::ZeroDuration())
    absl::StrAppend(&text, " for ", absl::FormatDuration(d.lasts));
  if (d.agent_is_late) absl::StrAppend(&text, " unnoticed by its agent");
  if (d.point.empty()) return absl::StrCat(text, " at ", absl::FormatDuration(d.time));
  return absl::StrCat(text, " when ",
                      d.at_rank.value < 0 ? "any rank" : absl::StrCat("rank ", d.at_rank.value),
                      " passes ", d.point, " for time ", d.passing);
}

struct SimulatedJob::Process {
  pid_t pid = 0;
  std::optional<ProcessNumber> number;  // once it has begun
  Rank rank;
  View since;
  Node node;
  std::string agent;  // where it listens
  bool was_killed = false;
  int threads = 2;  // that have not returned
  std::unique_ptr<Line> line;
  std::unique_ptr<StageTrainer> trainer;
  std::unique_ptr<NetworkClock> clock;
  std::unique_ptr<Member> member;
  View opened;       // the newest view
  std::string plan;  // by which
  absl::Status result;
};

// The member's way to the controller, and what is looked at on it.
class SimulatedJob::Line final : public ControlLink {
 public:
  Line(SimulatedJob& job, Process& process)
      : job_(job),
        process_(process),
        control_(job.control_, Machine(process.node.value),
                 {.agent = process.agent, .rank = process.rank, .since = process.since}) {}
  void send(MemberMessage message) override {
    if (process_.was_killed) return;
    if (std::holds_alternative<Finished>(message)) job_.note_finished(process_);
    job_.watch_rules(process_, message);
    control_.send(std::move(message));
  }
  WorkerControlLine& control() { return control_; }

 private:
  SimulatedJob& job_;
  Process& process_;
  WorkerControlLine control_;
};

SimulatedJob::SimulatedJob(SimulatedShape shape, std::vector<SimulatedFault> faults)
    : shape_(std::move(shape)),
      topology_(shape_.lanes, static_cast<int64_t>(shape_.lanes.size())),
      faults_(std::move(faults)),
      network_(topology_.world_size(), shape_.network),
      control_(network_, shape_.control),
      plane_(
          network_, control_, topology_, plane_options(shape_), *this,
          [this](const std::string& text) { tell(text); },
          [this](const std::string& mark) { outcome_.marks.insert(mark); }) {
  if (shape_.make_trainer != nullptr) return;
  shape_.make_trainer = [this](const Topology& topology, Transport& transport) {
    return std::make_unique<HashTrainer>(topology, transport, disk_, shape_.model);
  };
  shape_.digest_of = [](StageTrainer& trainer) {
    return to_hex(static_cast<HashTrainer&>(trainer).digest());
  };
}

SimulatedJob::~SimulatedJob() { arm_fault_points({}); }

void SimulatedJob::tell(const std::string& text) {
  outcome_.story.push_back(absl::StrCat(absl::FormatDuration(network_.now()), "  ", text));
}

// ---- workers

SimulatedJob::Process* SimulatedJob::playing(Rank rank) {
  for (auto at = processes_.rbegin(); at != processes_.rend(); ++at) {
    if ((*at)->rank == rank && (*at)->number && network_.lives(*(*at)->number)) return at->get();
  }
  return nullptr;
}

pid_t SimulatedJob::spawn(const SpawnWorker& worker, Node node, const std::string& agent) {
  processes_.push_back(std::make_unique<Process>());
  Process& process = *processes_.back();
  process.pid = static_cast<pid_t>(processes_.size());
  process.rank = worker.rank;
  process.since = worker.since;
  process.node = node;
  process.agent = agent;
  process.line = std::make_unique<Line>(*this, process);
  process.clock = std::make_unique<NetworkClock>(network_);
  const auto delay = absl::Microseconds(static_cast<int64_t>(
      network_.draw(static_cast<uint64_t>(absl::ToInt64Microseconds(kStartDelayMax)))));
  network_.after(delay, [this, &process] {
    if (!process.was_killed) start(process);
  });
  ++outcome_.processes;
  return process.pid;
}

void SimulatedJob::start(Process& process) {
  const auto training = [this, &process](Transport& transport) {
    come_to_life(process, transport);
    process.result = process.member->train();
    thread_ends(process, process.result);
  };
  const auto service = [this, &process](Transport& transport) {
    come_to_life(process, transport);
    const absl::Status served = process.member->serve();
    if (served.ok()) transport.close();
    thread_ends(process, served);
  };
  process.number = network_.start(process.rank, process.since, {training, service});
  network_.on_end(*process.number, [this, &process] { tell_agent(process); });
}

// By whichever of its threads runs first.
void SimulatedJob::come_to_life(Process& process, Transport& transport) {
  if (process.member != nullptr || process.threads < 2) return;
  process.trainer = shape_.make_trainer(topology_, transport);
  process.member = std::make_unique<Member>(topology_, transport, *process.trainer, *process.line,
                                            *process.clock, member_options(shape_));
  attach(process);
}

// As MemberProcess does (worker/member_worker.cc).
void SimulatedJob::attach(Process& process) {
  ControlHandlers handlers;
  handlers.describe = [this, &process] { return describe(process); };
  handlers.entered = [&process] {
    return process.member == nullptr ? View(0) : process.member->views().entered_view();
  };
  handlers.on_registered = [&process] {
    if (process.member != nullptr) process.member->repeat_trouble();
  };
  handlers.on_order = [this, &process](ControllerMessage order) {
    if (!network_.lives(*process.number) || process.member == nullptr) return;
    process.member->enqueue(std::move(order));
    network_.deliver(*process.number,
                     {View(0), kServiceGroup, static_cast<uint32_t>(MessageKind::kWake)}, {});
  };
  handlers.on_lost = [this, &process](const std::string&) { kill(process); };
  process.line->control().attach(process.pid, std::move(handlers), kHeartbeat);
}

MemberJoined SimulatedJob::describe(const Process& process) const {
  MemberJoined joined;
  joined.address = SimulatedNetwork::address(*process.number);
  if (process.member == nullptr) return joined;
  const MemberViews& views = process.member->views();
  const auto plan = views.plan();
  joined.newest_view = views.newest_view();
  joined.is_open = plan != nullptr && plan->view == joined.newest_view;
  joined.has_finished = views.standing().is_finished;
  joined.stage_epoch = views.standing().stage_epoch;
  joined.newest = process.member->newest_commit();
  return joined;
}

// The last one takes the member down, while the transport is still there.
void SimulatedJob::thread_ends(Process& process, const absl::Status& status) {
  if (is_contradiction(status)) outcome_.contradictions.push_back(status.ToString());
  if (--process.threads > 0) return;
  const MemberWork work = process.member->work();
  outcome_.work[static_cast<size_t>(process.rank.value)] = work;
  outcome_.log_bytes_peak = std::max(outcome_.log_bytes_peak, process.member->log_bytes_peak());
  outcome_.snapshot_bytes_peak =
      std::max(outcome_.snapshot_bytes_peak, process.member->snapshot_bytes_peak());
  if (work.copies_refused > 0) outcome_.marks.insert("unusable copy skipped");
  if (work.reorderings > 1) outcome_.marks.insert("new capture order");
  if (work.reordered_restores > 0) outcome_.marks.insert("restored in an order that was counted");
  process.member.reset();
  process.trainer.reset();
  control_.end(process.line->control().process());
}

void SimulatedJob::kill(pid_t pid) { kill(*processes_[static_cast<size_t>(pid - 1)]); }

void SimulatedJob::kill_all_of(const std::string& agent) {
  for (const auto& process : processes_) {
    if (process->agent == agent) kill(*process);
  }
}

void SimulatedJob::kill(Process& process) {
  if (process.was_killed || (process.number && !network_.lives(*process.number))) return;
  process.was_killed = true;
  control_.end(process.line->control().process());
  if (process.number) return network_.kill(*process.number);
  network_.after(absl::ZeroDuration(), [this, &process] { tell_agent(process); });
}

void SimulatedJob::tell_agent(Process& process) {
  ExitStatus exit;
  if (process.was_killed)
    exit.signal = SIGKILL;
  else if (!process.result.ok())
    exit.code = 1;
  plane_.on_worker_exit(process.agent, process.pid, exit);
}

void SimulatedJob::note_finished(const Process& process) {
  digests_[process.rank] = shape_.digest_of(*process.trainer);
  if (const auto* const hash = dynamic_cast<const HashTrainer*>(process.trainer.get()))
    outcome_.samples = hash->samples();
}

// Of the processes that live, at most one per role acts in a view, all in a view follow one plan,
// and none returns to an older view. (When nobody is left, the next controller counts views from 1
// again.)
void SimulatedJob::watch_rules(Process& process, const MemberMessage& message) {
  const auto* const milestone = std::get_if<Milestone>(&message);
  const auto* const progress = std::get_if<Progress>(&message);
  if (progress == nullptr &&
      (milestone == nullptr || milestone->kind != Milestone::Kind::kConnected))
    return;
  const View view = progress != nullptr ? progress->view : milestone->view;
  const auto violated = [&](const std::string& how) {
    outcome_.violations.push_back(
        absl::StrCat("rank ", process.rank.value, " in view ", view.value, " ", how));
  };
  if (milestone != nullptr) {
    if (view <= process.opened)
      violated(absl::StrCat("was in view ", process.opened.value, " already"));
    process.opened = view;
    process.plan = encode({0, SendOrder{Rank(0), View(0), *process.member->views().plan()}});
  }
  for (const auto& other : processes_) {
    if (other.get() == &process || other->opened != view || other->was_killed ||
        !network_.lives(*other->number))
      continue;
    if (other->rank == process.rank) violated("is played by two processes");
    if (other->plan != process.plan) violated("follows another plan than others");
  }
}

// ---- faults

void SimulatedJob::inject(const SimulatedFault& fault) {
  using Kind = SimulatedFault::Kind;
  tell(absl::StrCat("FAULT: ", to_string(fault)));
  switch (fault.kind) {
    case Kind::kKillNode: return inject_node_fault(fault);
    case Kind::kStopAgent: return plane_.stop_agent(fault.node, fault.lasts);
    case Kind::kStopNode: return stop_node(fault.node, fault.lasts);
    case Kind::kKillController: return plane_.kill_controller();
    case Kind::kStopController: return plane_.stop_controller(fault.lasts);
    default:
      return fault.kind >= Kind::kCutLine ? inject_line_fault(fault) : inject_worker_fault(fault);
  }
}

void SimulatedJob::inject_node_fault(const SimulatedFault& fault) {
  plane_.kill_agent(fault.node);
  if (fault.lasts == absl::ZeroDuration()) return;
  network_.after(fault.lasts, [this, node = fault.node] {
    if (plane_.is_up(node)) return;
    outcome_.marks.insert("node lost and back");
    plane_.start_agent(node);
  });
}

void SimulatedJob::stop_node(Node node, absl::Duration time) {
  plane_.stop_agent(node, time);
  for (const auto& process : processes_) {
    const ControlProcess at_agent = process->line->control().process();
    if (process->node != node || !process->number || !network_.lives(*process->number) ||
        control_.is_stopped(at_agent))
      continue;
    control_.stop(at_agent);
    network_.stop(*process->number);
    network_.after(time, [this, at_agent, number = *process->number] {
      if (!network_.lives(number)) return;
      outcome_.marks.insert("worker of a stopped node back");
      network_.go_on(number);
      control_.go_on(at_agent);
    });
  }
}

void SimulatedJob::inject_worker_fault(const SimulatedFault& fault) {
  using Kind = SimulatedFault::Kind;
  Process* const process = playing(fault.rank);
  if (fault.kind == Kind::kHang) return network_.pause(absl::InfiniteDuration());
  if (fault.kind == Kind::kPause) return network_.pause(SimulatedFault::kPauseTime);
  if (fault.kind == Kind::kCorruptCopies) {
    for (const auto& each : processes_) {
      if (fault.only_at.value >= 0 && each->rank != fault.only_at) continue;
      if (each->rank != fault.rank && !each->was_killed && each->member != nullptr)
        each->member->corrupt_copies(fault.rank);
    }
    return;
  }
  if (process == nullptr) return;
  if (fault.kind == Kind::kKillWorker) return kill(*process);
  if (fault.kind == Kind::kStopWorker) {
    control_.stop(process->line->control().process());
    return network_.stop(*process->number);
  }
  Process* const other = playing(fault.other);
  if (other != nullptr) network_.cut(*process->number, *other->number);
}

void SimulatedJob::inject_line_fault(const SimulatedFault& fault) {
  using Kind = SimulatedFault::Kind;
  for (int32_t n = 0; n < shape_.nodes + shape_.spares; ++n) {
    if (fault.node.value >= 0 && fault.node != Node(n)) continue;
    const Machine node(n);
    if (fault.kind == Kind::kCutLine || fault.kind == Kind::kMuteNode)
      control_.block(node, kHeadMachine, fault.lasts);
    if (fault.kind == Kind::kCutLine || fault.kind == Kind::kDeafNode)
      control_.block(kHeadMachine, node, fault.lasts);
    if (fault.kind == Kind::kSlowLine) {
      control_.slow(node, kHeadMachine, kSlowDelayMax, fault.lasts);
      control_.slow(kHeadMachine, node, kSlowDelayMax, fault.lasts);
    }
    if (fault.kind != Kind::kBreakLine) continue;
    if (fault.agent_is_late)
      control_.break_streams(kHeadMachine, node, fault.lasts);
    else
      control_.break_streams(node, kHeadMachine, fault.lasts);
  }
}

void SimulatedJob::pass_point(const char* point) {
  const auto number = network_.running_process();
  if (!number || !network_.lives(*number)) return;
  const auto found = std::find_if(processes_.begin(), processes_.end(),
                                  [&](const auto& p) { return p->number == *number; });
  if (found == processes_.end()) return;
  const Rank rank = (*found)->rank;
  const int64_t any = ++passings_[{point, -1}];
  const int64_t own = ++passings_[{point, rank.value}];
  for (SimulatedFault& fault : faults_) {
    if (fault.point != point) continue;
    if (fault.passing != (fault.at_rank.value < 0 ? any : own)) continue;
    if (fault.at_rank.value >= 0 && fault.at_rank != rank) continue;
    if (fault.kind == SimulatedFault::Kind::kKillWorker && fault.rank.value < 0) {
      SimulatedFault here = fault;
      here.rank = rank;
      inject(here);
    } else {
      inject(fault);
    }
  }
}

// ---- the run

SimulatedOutcome SimulatedJob::run() {
  outcome_.work.resize(static_cast<size_t>(topology_.world_size()));
  arm_fault_points([this](const char* point, int64_t) { pass_point(point); });
  network_.after(absl::ZeroDuration(), [this] { plane_.begin(); });
  for (const SimulatedFault& fault : faults_) {
    if (fault.point.empty()) network_.after(fault.time, [this, fault] { inject(fault); });
  }
  const bool by_itself = network_.run();
  arm_fault_points({});
  if (!by_itself) outcome_.waiting = network_.waiting();
  outcome_.duration = network_.now();
  outcome_.recoveries = plane_.recoveries();
  outcome_.controllers = plane_.lives();
  outcome_.longest_queue = control_.longest_queue();
  if (control_.envelopes_lost() > 0) outcome_.marks.insert("words lost with a line");
  if (control_.calls_failed() > 0) outcome_.marks.insert("call failed");
  if (plane_.end()) {
    outcome_.ended = plane_.is_over();
    outcome_.ok = plane_.end()->ok;
    outcome_.reason = plane_.end()->reason;
  }
  mark_recoveries();
  if (outcome_.ok) {
    for (const auto& [rank, digest] : digests_)
      absl::StrAppend(&outcome_.digest, digest.substr(0, 8));
  }
  return outcome_;
}

namespace {

bool has_double_loss_in_a_stage(const RecoveryRecord& record) {
  std::map<std::string, std::set<std::string>> lanes_of_stage;
  for (const std::string& role : record.roles)
    lanes_of_stage[role.substr(0, role.find('.'))].insert(role);
  return std::any_of(lanes_of_stage.begin(), lanes_of_stage.end(),
                     [](const auto& s) { return s.second.size() > 1; });
}

}  // namespace

void SimulatedJob::mark_recoveries() {
  if (outcome_.ended && !outcome_.ok) outcome_.marks.insert("refused");
  for (const RecoveryRecord& record : outcome_.recoveries) {
    const auto segments = segments_of(record.rolled_back_stages);
    if (segments.size() > 1) outcome_.marks.insert("disjoint stages");
    for (const auto& segment : segments) {
      if (segment.size() > 1) outcome_.marks.insert("joint segment");
    }
    if (record.views.size() > 1) outcome_.marks.insert("failure during a recovery");
    if (record.restarted_all) outcome_.marks.insert("restart of all");
    if (record.roles.size() > 1) outcome_.marks.insert("several lost");
    if (has_double_loss_in_a_stage(record) && record.verified < absl::InfiniteDuration()) {
      outcome_.marks.insert("survivor of a double loss in one stage");
    }
    if (record.verified < absl::InfiniteDuration()) outcome_.marks.insert("survivor verified");
    if (!record.sources.empty()) outcome_.marks.insert("restored");
  }
}

}  // namespace evermoe
