#include "sim/simulated_job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/fault_point.h"

namespace evermoe {
namespace {

constexpr absl::Duration kHeartbeat = absl::Milliseconds(100);
constexpr absl::Duration kControllerReturns = absl::Milliseconds(300);
constexpr absl::Duration kControlDelayMax = absl::Milliseconds(2);
constexpr absl::Duration kStartDelayMax = absl::Milliseconds(20);

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

MemberOptions member_options(const SimulatedShape& shape) {
  MemberOptions options;
  options.is_protected = shape.is_protected;
  options.slots = shape.window;
  options.period = std::max(shape.period, shape.window);
  options.ordering = shape.ordering;
  if (shape.changes_windows) {
    options.wanted_slots = [asked = 0](const OperatorOrdering&) mutable { return 1 + (++asked * 7 / 3) % 4; };
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

std::string to_string(const Disaster& d) {
  const char* const kinds[] = {"kill worker", "stop worker", "kill node", "kill controller", "cut", "corrupt copies of", "pause", "hang"};
  std::string text = kinds[static_cast<int>(d.kind)];
  if (d.kind == Disaster::Kind::kKillNode) absl::StrAppend(&text, " ", d.node.value);
  else if (d.kind != Disaster::Kind::kKillController) absl::StrAppend(&text, " ", d.rank.value);
  if (d.kind == Disaster::Kind::kCut) absl::StrAppend(&text, " from ", d.other.value);
  if (d.point.empty()) return absl::StrCat(text, " at ", absl::FormatDuration(d.time));
  return absl::StrCat(text, " when ", d.at_rank.value < 0 ? "any rank" : absl::StrCat("rank ", d.at_rank.value), " passes ",
                      d.point, " for time ", d.passing);
}

struct SimulatedJob::Process {
  int64_t index = 0;
  ProcessNumber number;
  Rank rank;
  View since;
  Node node;
  bool has_ended = false;  // as its agent knows
  bool is_stopped = false;
  absl::Duration last_order = absl::ZeroDuration();  // when it arrives
  absl::Duration last_word = absl::ZeroDuration();   // likewise, at the controller
  int threads = 2;  // that have not returned
  std::unique_ptr<Link> link;
  std::unique_ptr<StageTrainer> trainer;
  std::unique_ptr<NetworkClock> clock;
  std::unique_ptr<Member> member;
  absl::Status result;
};

// A member's channel to the controller: messages arrive later, in order, unless one end is gone.
class SimulatedJob::Link final : public ControlLink {
 public:
  Link(SimulatedJob& job, Process& process) : job_(job), process_(process) {}
  void send(MemberMessage message) override {
    if (!job_.network_.lives(process_.number)) return;
    if (std::holds_alternative<Finished>(message)) job_.digests_[process_.rank] = job_.shape_.digest_of(*process_.trainer);
    job_.to_controller(MemberSaid{process_.rank, process_.since, std::move(message)}, &process_);
  }
 private:
  SimulatedJob& job_;
  Process& process_;
};

SimulatedJob::SimulatedJob(SimulatedShape shape, std::vector<Disaster> disasters)
    : shape_(std::move(shape)),
      topology_(shape_.lanes, static_cast<int64_t>(shape_.lanes.size())),
      disasters_(std::move(disasters)), network_(topology_.world_size(), shape_.network),
      node_lives_(static_cast<size_t>(shape_.nodes + shape_.spares), true) {
  if (shape_.make_trainer != nullptr) return;
  shape_.make_trainer = [this](const Topology& topology, Transport& transport) {
    return std::make_unique<HashTrainer>(topology, transport, disk_, shape_.model);
  };
  shape_.digest_of = [](StageTrainer& trainer) { return to_hex(static_cast<HashTrainer&>(trainer).digest()); };
}

SimulatedJob::~SimulatedJob() { arm_fault_points({}); }

SimulatedJob::Process* SimulatedJob::playing(Rank rank) {
  for (auto at = processes_.rbegin(); at != processes_.rend(); ++at) {
    if ((*at)->rank == rank && network_.lives((*at)->number)) return at->get();
  }
  return nullptr;
}

// ---- controller

void SimulatedJob::start_controller() {
  ControllerOptions options = controller_options(shape_);
  options.takes_over = controller_life_ > 0;
  ++controller_life_;
  controller_ = std::make_unique<ControllerCore>(topology_, options, network_.now());
  for (int32_t n = 0; n < static_cast<int32_t>(node_lives_.size()); ++n) {
    if (node_lives_[static_cast<size_t>(n)]) to_controller(AgentJoined{Node(n)});
  }
  for (const auto& process : processes_) {
    if (network_.lives(process->number) && process->member != nullptr) say_joined(*process);
  }
  schedule_deadline();
}

void SimulatedJob::kill_controller() {
  if (controller_ == nullptr) return;
  for (const RecoveryRecord& record : controller_->recoveries()) outcome_.recoveries.push_back(record);
  outcome_.marks.insert(controller_->is_open() ? "controller killed" : "controller killed while a view opened");
  controller_.reset();
  ++controller_life_;
  network_.after(kControllerReturns, [this] { start_controller(); });
}

void SimulatedJob::to_controller(ControllerEvent event, Process* about) {
  const int64_t life = controller_life_;
  auto delay = absl::Microseconds(static_cast<int64_t>(network_.draw(
      static_cast<uint64_t>(absl::ToInt64Microseconds(kControlDelayMax)))));
  if (about != nullptr) {
    about->last_word = std::max(about->last_word, network_.now() + delay);
    delay = about->last_word - network_.now();
  }
  network_.after(delay, [this, life, about, event = std::move(event)] {
    if (about != nullptr && has_successor(*about)) return;
    if (life == controller_life_ && controller_ != nullptr) on_event(event);
  });
}

bool SimulatedJob::has_successor(const Process& process) const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [&](const auto& other) { return other->rank == process.rank && other->index > process.index; });
}

void SimulatedJob::on_event(const ControllerEvent& event) {
  for (const ControllerAction& action : controller_->on(network_.now(), event)) act(action);
  if (controller_ != nullptr) schedule_deadline();
}

void SimulatedJob::schedule_deadline() {
  const absl::Duration next = controller_->next_deadline();
  if (next == absl::InfiniteDuration()) return;
  const int64_t life = controller_life_;
  network_.after(std::max(next - network_.now(), absl::ZeroDuration()), [this, life, next] {
    if (life != controller_life_ || controller_ == nullptr || controller_->next_deadline() > next) return;
    on_event(TimePassed{});
  });
}

void SimulatedJob::act(const ControllerAction& action) {
  if (const auto* const start = std::get_if<StartWorker>(&action)) {
    start_worker(*start);
  } else if (const auto* const kill = std::get_if<KillWorker>(&action)) {
    kill_worker(kill->rank, kill->since);
  } else if (const auto* const order = std::get_if<SendOrder>(&action)) {
    for (const auto& process : processes_) {
      if (process->rank != order->rank || process->since != order->since || !network_.lives(process->number)) continue;
      // In order: every process has one stream of orders.
      const auto delay = absl::Microseconds(static_cast<int64_t>(network_.draw(
          static_cast<uint64_t>(absl::ToInt64Microseconds(kControlDelayMax)))));
      process->last_order = std::max(process->last_order, network_.now() + delay);
      network_.after(process->last_order - network_.now(), [this, process = process.get(), message = order->message] {
        if (!network_.lives(process->number) || process->member == nullptr) return;
        process->member->enqueue(message);
        network_.deliver(process->number, {View(0), kLetterGroup, static_cast<uint32_t>(MessageKind::kWake)}, {});
      });
    }
  } else if (const auto* const tell = std::get_if<Tell>(&action)) {
    outcome_.story.push_back(absl::StrCat(absl::FormatDuration(network_.now()), "  ", tell->text));
  } else if (const auto* const end = std::get_if<EndJob>(&action)) {
    outcome_.ended = true;
    outcome_.ok = end->ok;
    outcome_.reason = end->reason;
    network_.end();
  }
}

// ---- agents and workers

void SimulatedJob::start_worker(const StartWorker& start) {
  const auto delay = absl::Microseconds(static_cast<int64_t>(network_.draw(
      static_cast<uint64_t>(absl::ToInt64Microseconds(kStartDelayMax)))));
  network_.after(delay, [this, start] {
    if (!node_lives_[static_cast<size_t>(start.node.value)] || playing(start.rank) != nullptr) return;
    auto owned = std::make_unique<Process>();
    Process& process = *owned;
    process.index = static_cast<int64_t>(processes_.size());
    process.rank = start.rank;
    process.since = start.since;
    process.node = start.node;
    process.link = std::make_unique<Link>(*this, process);
    process.clock = std::make_unique<NetworkClock>(network_);
    processes_.push_back(std::move(owned));
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
    process.number = network_.start(start.rank, start.since, {training, service});
    network_.on_end(process.number, [this, index = process.index] {
      Process& ended = *processes_[static_cast<size_t>(index)];
      worker_ended(index, ended.result.ok() ? "exit code 0" : std::string(ended.result.message()), ended.result.ok());
    });
    ++outcome_.processes;
  });
}

// By whichever of its threads runs first.
void SimulatedJob::come_to_life(Process& process, Transport& transport) {
  if (process.member != nullptr || process.threads < 2) return;
  process.trainer = shape_.make_trainer(topology_, transport);
  process.member = std::make_unique<Member>(
      topology_, transport, *process.trainer, *process.link, *process.clock,
      member_options(shape_));
  say_joined(process);
}

// The last one takes the member down, while the transport is still there.
void SimulatedJob::thread_ends(Process& process, const absl::Status& status) {
  if (is_contradiction(status)) outcome_.contradictions.push_back(status.ToString());
  if (--process.threads > 0) return;
  outcome_.work[static_cast<size_t>(process.rank.value)] = process.member->work();
  outcome_.log_bytes_peak = std::max(outcome_.log_bytes_peak, process.member->log_bytes_peak());
  outcome_.snapshot_bytes_peak = std::max(outcome_.snapshot_bytes_peak, process.member->snapshot_bytes_peak());
  if (const auto* const hash = dynamic_cast<const HashTrainer*>(process.trainer.get()); hash != nullptr && process.result.ok()) {
    outcome_.samples = hash->samples();
  }
  const MemberWork work = process.member->work();
  if (work.copies_refused > 0) outcome_.marks.insert("unusable copy skipped");
  if (work.reorderings > 1) outcome_.marks.insert("new capture order");
  if (work.reordered_restores > 0) outcome_.marks.insert("restored in an order that was counted");
  process.member.reset();
  process.trainer.reset();
}

void SimulatedJob::say_joined(Process& process) {
  const MemberViews& views = process.member->views();
  const auto plan = views.plan();
  const bool is_open = plan != nullptr && plan->view == views.newest_view();
  to_controller(MemberJoined{process.rank, process.since, process.node, SimulatedNetwork::address(process.number),
                             views.newest_view(), is_open, views.standing().is_finished, views.standing().stage_epoch,
                             process.member->newest_commit()},
                &process);
  process.member->repeat_trouble();
}

void SimulatedJob::kill_worker(Rank rank, View since) {
  for (const auto& process : processes_) {
    if (process->rank == rank && process->since == since && network_.lives(process->number)) {
      network_.kill(process->number);
    }
  }
}

void SimulatedJob::worker_ended(int64_t index, const std::string& how, bool is_clean) {
  Process& process = *processes_[static_cast<size_t>(index)];
  if (process.has_ended) return;
  process.has_ended = true;
  if (!node_lives_[static_cast<size_t>(process.node.value)]) return;  // its agent is gone, too
  to_controller(WorkerEnded{process.rank, process.since, process.node, how, is_clean}, &process);
}

void SimulatedJob::beat() {
  for (const auto& process : processes_) {
    if (network_.lives(process->number) && !process->is_stopped) {
      const View entered = process->member == nullptr ? View(0) : process->member->views().entered_view();
      to_controller(MemberAlive{process->rank, process->since, entered}, process.get());
    }
  }
  network_.after(kHeartbeat, [this] { beat(); });
}

// ---- disasters

void SimulatedJob::strike(const Disaster& disaster) {
  outcome_.story.push_back(absl::StrCat(absl::FormatDuration(network_.now()), "  DISASTER: ", to_string(disaster)));
  Process* const process = playing(disaster.rank);
  switch (disaster.kind) {
    case Disaster::Kind::kKillWorker:
      if (process != nullptr) network_.kill(process->number);
      break;
    case Disaster::Kind::kStopWorker:
      if (process == nullptr) break;
      process->is_stopped = true;
      network_.stop(process->number);
      break;
    case Disaster::Kind::kKillNode: {
      const auto node = static_cast<size_t>(disaster.node.value);
      const auto alive = std::count(node_lives_.begin(), node_lives_.end(), true);
      if (!node_lives_[node] || alive == 1) break;
      node_lives_[node] = false;
      for (const auto& each : processes_) {
        if (each->node == disaster.node && network_.lives(each->number)) network_.kill(each->number);
      }
      to_controller(AgentLost{disaster.node, "its agent is gone"});
      break;
    }
    case Disaster::Kind::kKillController:
      kill_controller();
      break;
    case Disaster::Kind::kCut: {
      Process* const other = playing(disaster.other);
      if (process != nullptr && other != nullptr) network_.cut(process->number, other->number);
      break;
    }
    case Disaster::Kind::kCorruptCopies:
      for (const auto& each : processes_) {
        if (disaster.only_at.value >= 0 && each->rank != disaster.only_at) continue;
        if (each->rank != disaster.rank && network_.lives(each->number) && each->member != nullptr) each->member->corrupt_copies(disaster.rank);
      }
      break;
    case Disaster::Kind::kHang:
      network_.pause(absl::InfiniteDuration());
      break;
    case Disaster::Kind::kPause:
      network_.pause(Disaster::kPauseTime);
      break;
  }
}

void SimulatedJob::pass_point(const char* point) {
  const auto number = network_.running_process();
  if (!number || !network_.lives(*number)) return;
  const auto found = std::find_if(processes_.begin(), processes_.end(), [&](const auto& p) { return p->number == *number; });
  if (found == processes_.end()) return;
  const Rank rank = (*found)->rank;
  const int64_t any = ++passings_[{point, -1}];
  const int64_t own = ++passings_[{point, rank.value}];
  for (Disaster& disaster : disasters_) {
    if (disaster.point != point) continue;
    if (disaster.passing != (disaster.at_rank.value < 0 ? any : own)) continue;
    if (disaster.at_rank.value >= 0 && disaster.at_rank != rank) continue;
    if (disaster.kind == Disaster::Kind::kKillWorker && disaster.rank.value < 0) {
      Disaster here = disaster;
      here.rank = rank;
      strike(here);
    } else {
      strike(disaster);
    }
  }
}

// ---- the run

SimulatedOutcome SimulatedJob::run() {
  outcome_.work.resize(static_cast<size_t>(topology_.world_size()));
  arm_fault_points([this](const char* point, int64_t) { pass_point(point); });
  network_.after(absl::ZeroDuration(), [this] {
    start_controller();
    beat();
  });
  for (const Disaster& disaster : disasters_) {
    if (disaster.point.empty()) network_.after(disaster.time, [this, disaster] { strike(disaster); });
  }
  const bool by_itself = network_.run();
  arm_fault_points({});
  if (!by_itself) outcome_.waiting = network_.waiting();
  outcome_.duration = network_.now();
  if (controller_ != nullptr) {
    for (const RecoveryRecord& record : controller_->recoveries()) outcome_.recoveries.push_back(record);
  }
  mark_recoveries();
  if (outcome_.ok) {
    for (const auto& [rank, digest] : digests_) absl::StrAppend(&outcome_.digest, digest.substr(0, 8));
  }
  return outcome_;
}

namespace {

bool has_double_loss_in_a_stage(const RecoveryRecord& record) {
  std::map<std::string, std::set<std::string>> lanes_of_stage;
  for (const std::string& role : record.roles) lanes_of_stage[role.substr(0, role.find('.'))].insert(role);
  return std::any_of(lanes_of_stage.begin(), lanes_of_stage.end(), [](const auto& s) { return s.second.size() > 1; });
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
