#include "train/step/training_member_testing.h"

#include <utility>
#include <variant>

#include "base/error.h"
#include "base/log.h"
#include "env/clock.h"

namespace evermoe {
namespace {

constexpr View kView(1);  // the only one

MemberOptions member_options() {
  MemberOptions options;
  options.strategy = strategy_of(StrategyKind::kNone);
  options.patience = absl::Seconds(5);  // no other view will come
  return options;
}

// Tells the job when its rank has finished.
class FinishedLink final : public ControlLink {
 public:
  explicit FinishedLink(std::function<void()> on_finished) : on_finished_(std::move(on_finished)) {}
  void send(MemberMessage message) override {
    if (std::holds_alternative<Finished>(message)) on_finished_();
  }

 private:
  const std::function<void()> on_finished_;
};

}  // namespace

struct TrainingMembers::Process {
  Process(Rank rank, std::function<void()> on_finished)
      : rank(rank), control(std::move(on_finished)) {}
  const Rank rank;
  FinishedLink control;
  ProcessNumber number;
  absl::Status status = Cancelled("ended before it began");
  std::unique_ptr<Trainer> trainer;
  std::unique_ptr<Member> member;
  int threads = 2;  // that have not ended
};

TrainingMembers::TrainingMembers(const Topology& topology, uint64_t seed, MakeTrainer make_trainer)
    : topology_(topology),
      make_trainer_(std::move(make_trainer)),
      network_(topology.world_size(), {.seed = seed, .one_core = false}) {
  plan_.view = kView;
  plan_.restart_all = true;
  for (int r = 0; r < topology.world_size(); ++r) {
    processes_.push_back(std::make_unique<Process>(Rank(r), [this] { on_finished(); }));
    Process& process = *processes_.back();
    process.number = network_.start(Rank(r), kView, threads_of(process));
    plan_.table.push_back({SimulatedNetwork::address(process.number), kView});
  }
}

TrainingMembers::~TrainingMembers() = default;

void TrainingMembers::kill_at(Rank rank, absl::Duration time) {
  const ProcessNumber number = processes_[static_cast<size_t>(rank.value)]->number;
  network_.after(time, [this, number] {
    if (network_.lives(number)) network_.kill(number);
  });
}

// By whichever of its threads runs first.
void TrainingMembers::come_to_life(Process& process, Transport& transport) {
  at::set_num_threads(1);
  if (process.member != nullptr || process.threads < 2) return;
  auto trainer = make_trainer_(transport);
  process.status = trainer.status();
  if (!trainer.ok()) return;
  process.trainer = *std::move(trainer);
  MemberObserver observer;
  observer.on_resumed = [this](Step step, const std::string&) { resumed_from_ = step; };
  process.member = std::make_unique<Member>(topology_, transport, *process.trainer, process.control,
                                            real_clock(), member_options(), std::move(observer));
  process.member->enqueue(StopOrder{kView});
  process.member->enqueue(plan_);
}

void TrainingMembers::thread_ends(Process& process, Transport& transport) {
  if (--process.threads > 0) return;
  transport.close();
  process.member.reset();
  on_end_(process.rank, process.trainer.get(), process.status);
  process.trainer.reset();
}

std::vector<SimulatedNetwork::Thread> TrainingMembers::threads_of(Process& process) {
  return {[this, &process](Transport& transport) {
            come_to_life(process, transport);
            if (process.member != nullptr) process.status = process.member->train();
            thread_ends(process, transport);
          },
          [this, &process](Transport& transport) {
            come_to_life(process, transport);
            if (process.member != nullptr) process.member->serve().IgnoreError();
            thread_ends(process, transport);
          }};
}

// Nobody needs anybody any more once all have finished.
void TrainingMembers::on_finished() {
  if (++finished_ < topology_.world_size()) return;
  for (const auto& process : processes_) {
    if (process->member == nullptr) continue;
    process->member->enqueue(ReleaseOrder{});
    network_.deliver(process->number,
                     {View(0), kServiceGroup, static_cast<uint32_t>(MessageKind::kWake)}, {});
  }
}

void TrainingMembers::run(OnEnd on_end) {
  on_end_ = std::move(on_end);
  if (!network_.run()) log_error("a simulated job cannot go on: " + network_.waiting());
}

}  // namespace evermoe
