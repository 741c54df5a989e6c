// For tests: ranks made of the real parts of a member, over a simulated network whose views the
// test decides, with a trainer whose arithmetic one can do in one's head.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/simulated/simulated_network.h"
#include "env/clock.h"
#include "recovery/member/restore/restorer.h"
#include "recovery/member/serve/member_service.h"
#include "recovery/member/train/commit_agreement.h"

namespace evermoe {

// Every operator is a number, and step s adds s to it. Its stage has no neighbours.
class TallyTrainer : public StageTrainer {
 public:
  struct Options {
    int operators = 3;
    int64_t steps = 6;
    int64_t evaluate_every = 0;  // steps; 0: never
    int64_t evaluation_batches = 1;
    int64_t save_every = 0;
  };
  explicit TallyTrainer(const Options& options)
      : options_(options), masters(static_cast<size_t>(options.operators)) {
    for (int i = 0; i < options.operators; ++i) {
      operators_.push_back(
          {.name = absl::StrCat("operator.", i), .bytes = {16, 8}, .whole = {16, 8}});
    }
    compute = masters;
  }

  const std::vector<StageOperator>& operators() const override { return operators_; }
  void join_stage(View epoch) override { called("join", epoch.value); }
  absl::StatusOr<std::string> resume(Communicator&) override {
    called("resume", 0);
    RETURN_IF_ERROR(restore_base(Step(0)));
    return std::string("the beginning");
  }
  absl::Status restore_base(Step base) override {
    step_ = base;
    masters.assign(masters.size(), 0);
    compute = masters;
    return absl::OkStatus();
  }
  void forget_base() override {}
  void capture(int index, SnapshotKind kind, int64_t offset,
               std::span<std::byte> into) const override {
    const int64_t full[] = {masters[static_cast<size_t>(index)],
                            -masters[static_cast<size_t>(index)]};
    const int64_t* const from =
        kind == SnapshotKind::kFull ? full : &compute[static_cast<size_t>(index)];
    std::memcpy(into.data(), reinterpret_cast<const std::byte*>(from) + offset, into.size());
  }
  void restore(int index, SnapshotKind kind, int64_t offset,
               std::span<const std::byte> from) override {
    const auto at = static_cast<size_t>(index);
    int64_t& into = kind == SnapshotKind::kFull ? masters[at] : compute[at];
    if (offset == 0 && from.size() >= 8) std::memcpy(&into, from.data(), 8);
    if (kind == SnapshotKind::kFull)
      compute[at] = masters[at];
    else
      masters[at] = -1;  // stale values must not help
  }
  absl::Status complete_restore(const std::vector<int>& indices) override {
    called("restored", std::ssize(indices));
    return absl::OkStatus();
  }
  Step step() const override { return step_; }
  RecordBytes position() const override {
    const auto bytes = std::as_bytes(std::span(&step_.value, 1));
    return {bytes.begin(), bytes.end()};
  }
  absl::Status set_position(const RecordBytes& position) override {
    if (position.size() != sizeof(step_.value)) return Corrupt("not a position");
    std::memcpy(&step_.value, position.data(), position.size());
    return absl::OkStatus();
  }
  absl::StatusOr<Findings> train(const ActiveOperators&, Boundary&) override {
    called("train", step_.value + 1);
    return Findings{{1}, {0}};
  }
  const ExpertLoads& expert_loads() const override { return loads_; }
  absl::Status apply(const Findings& combined, const ActiveOperators& active,
                     const BeforeWrite& before_write) override {
    step_ = Step(step_.value + 1);
    for (size_t i = 0; i < masters.size(); ++i) {
      if (!active[i]) continue;
      RETURN_IF_ERROR(before_write(static_cast<int>(i)));
      compute[i] = masters[i] += step_.value * static_cast<int64_t>(combined.sums[0]);
    }
    return absl::OkStatus();
  }
  bool is_evaluated(Step step) const override { return is_due(step, options_.evaluate_every); }
  int64_t evaluation_batches() const override { return options_.evaluation_batches; }
  absl::StatusOr<Findings> evaluate(int64_t batch, Boundary&) override {
    called("evaluate", 10 * step_.value + batch);
    return Findings{{2}, {0}};
  }
  void apply_evaluation(const Findings& combined) override {
    called("evaluated", static_cast<int64_t>(combined.sums[0]));
  }
  bool is_saved(Step step) const override { return is_due(step, options_.save_every); }
  absl::Status save() override {
    called("save", step_.value);
    return absl::OkStatus();
  }
  bool is_finished() const override { return step_.value >= options_.steps; }
  absl::StatusOr<Findings> close() override {
    called("close", step_.value);
    return Findings{{0}, {1}};
  }
  bool is_closed(const Findings& combined) override { return combined.minima[0] == 1; }

  // What every operator is after `step` steps in a job of so many ranks.
  static int64_t after(int64_t step, int64_t ranks) { return ranks * step * (step + 1) / 2; }

 private:
  void called(const std::string& what, int64_t number) {
    calls.push_back(absl::StrCat(what, " ", number));
  }
  static bool is_due(Step step, int64_t every) { return every > 0 && step.value % every == 0; }

  const Options options_;
  std::vector<StageOperator> operators_;
  ExpertLoads loads_;
  Step step_{0};

 public:
  std::vector<int64_t> masters, compute;
  std::vector<std::string> calls;
};

// What a member told its controller.
class ToldController : public ControlLink {
 public:
  void send(MemberMessage message) override {
    messages.push_back(message);
    if (on_message) on_message(message);
  }
  template <typename Message>
  std::vector<Message> all() const {
    std::vector<Message> found;
    for (const MemberMessage& message : messages) {
      if (const auto* const one = std::get_if<Message>(&message)) found.push_back(*one);
    }
    return found;
  }
  std::vector<MemberMessage> messages;
  std::function<void(const MemberMessage&)> on_message;
};

// A plan in words: PlanOf(2).up_to(verdict_commit(Step(6)), 1).back_to_window(3, {0}).from(0, {1}).
class PlanOf {
 public:
  explicit PlanOf(uint32_t view, int ranks = 1) : ranks_(static_cast<size_t>(ranks)) {
    plan_.view = View(view);
    plan_.base = Step(0);
    plan_.holders.resize(ranks_);
  }
  PlanOf& restarting_all() { return plan_.restart_all = true, *this; }
  PlanOf& up_to(Commit newest, int record_source = 0) {
    plan_.newest = newest;
    plan_.record_source = Rank(record_source);
    return *this;
  }
  PlanOf& back_to_base(std::vector<int> stages) {
    return plan_.rolled_back = std::move(stages), *this;
  }
  PlanOf& back_to_window(int window, std::vector<int> stages) {
    return plan_.window = Step(window), back_to_base(std::move(stages));
  }
  PlanOf& from(int rank, const std::vector<int>& sources) {
    plan_.sources.resize(ranks_);
    for (const int source : sources)
      plan_.sources[static_cast<size_t>(rank)].push_back(Rank(source));
    return *this;
  }
  PlanOf& held_by(int rank, int holder) {
    return plan_.holders[static_cast<size_t>(rank)] = {Rank(holder)}, *this;
  }
  PlanOf& at(std::vector<PeerAddress> table) { return plan_.table = std::move(table), *this; }
  const Plan& plan() const { return plan_; }
  operator PlanPointer() const { return std::make_shared<const Plan>(plan_); }

 private:
  const size_t ranks_;
  Plan plan_;
};

// All parts of a member but its program. The test takes the training thread's part.
struct RankParts {
  RankParts(const Topology& topology, Transport& transport, const TallyTrainer::Options& options)
      : topology(topology),
        transport(transport),
        trainer(options),
        wake(transport, 1),
        sender(transport,
               [this](View view, const absl::Status& status) { troubles.report(view, status); }),
        views(wake, absl::Minutes(1), absl::Milliseconds(100)),
        troubles(transport.rank(), views, told),
        memory(1 << 20, 1 << 20),
        window(trainer, {}),
        exchange(
            {.transport = transport,
             .sender = sender,
             .views = views,
             .log = memory.log,
             .received = memory.received,
             .report_trouble =
                 [this](View view, const absl::Status& status) { troubles.report(view, status); }}),
        copies({.rank = rank(),
                .trainer = trainer,
                .schedule = window.schedule(),
                .store = memory.store,
                .sender = sender,
                .views = views,
                .wake_training = wake,
                .clock = clock},
               {.chunk_bytes_max = 16}),
        commits(
            {.transport = transport,
             .sender = sender,
             .views = views,
             .records = memory.records,
             .troubles = troubles,
             .vote = [this](bool ends_window) { return vote(ends_window); },
             .on_agreed = [this](View, Commit commit, const Record&) { agreed.push_back(commit); },
             .deadline = absl::Seconds(5)}),
        fetch({rank(), topology, memory.store, sender, views, troubles, refused, counts}),
        restorer({.rank = rank(),
                  .topology = topology,
                  .trainer = trainer,
                  .views = views,
                  .control = told,
                  .commits = commits,
                  .memory = memory,
                  .copies = copies,
                  .window = window,
                  .fetch = fetch,
                  .counts = counts,
                  .bytes_at_once = 16}),
        answers({rank(), memory, copies, exchange, sender, refused, wake, /*is_rehearsal=*/true}),
        follower({.rank = rank(),
                  .stage = topology.role_of(rank()).stage,
                  .is_protected = true,
                  .transport = transport,
                  .wake_training = wake,
                  .orders = orders,
                  .views = views,
                  .control = told,
                  .troubles = troubles,
                  .memory = memory,
                  .copies = copies,
                  .exchange = exchange,
                  .on_opened = [this] { service.on_opened(); }}),
        service({transport, clock, views, copies, follower, answers}) {}

  Rank rank() const { return transport.rank(); }
  // What the controller orders. Followed by the service thread.
  void order(ControllerMessage message) {
    orders.push(std::move(message));
    sender.wake_service();
  }
  // Stops for the plan's view, opens it, and returns when this thread has entered it.
  absl::Status enter(const PlanOf& plan) {
    const View before = views.newest_view();
    order(StopOrder{plan.plan().view});
    order(plan.plan());
    return views.pass(before).status();
  }
  // The same for a plan by which this rank begins anew.
  absl::Status begin(const PlanOf& plan) {
    order(StopOrder{plan.plan().view});
    order(plan.plan());
    return views.next_start().status();
  }
  void end() { views.end(absl::OkStatus()), sender.wake_service(); }
  // The run begins at step 0: window after window of `slots` slots.
  void begin_run(int slots) {
    Record first;
    first.rule = {Step(0), slots, slots};
    EXPECT_TRUE(memory.records.put(verdict_commit(Step(0)), encode(first)).ok());
    window.begin_run(first.rule);
  }
  // Agrees on the step that follows and runs it.
  void step(const ActiveOperators& active) {
    const Commit commit = verdict_commit(Step(trainer.step().value + 1));
    const auto findings = trainer.train(active, exchange);
    const auto record = commits.agree(commit, CommitAgreement::Kind::kStep, *findings);
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_TRUE(
        trainer.apply(record->combined, active, [this](int op) { return copies.wait_read(op); })
            .ok());
  }

  const Topology& topology;
  Transport& transport;
  Clock& clock = real_clock();
  TallyTrainer trainer;
  ToldController told;
  std::vector<Commit> agreed;
  std::function<WindowVote(bool ends_window)> vote = [](bool) { return WindowVote{}; };
  Signal wake;
  MessageSender sender;
  MemberViews views;
  TroubleReporter troubles;
  WorkCounts counts;
  OrderQueue orders;
  RefusedSlot refused;
  RecoveryMemory memory;
  WindowState window;
  BoundaryExchange exchange;
  SnapshotCopies copies;
  CommitAgreement commits;
  WindowFetch fetch;
  Restorer restorer;
  MessageAnswers answers;
  OrderFollower follower;
  MemberService service;
};

// Runs `body` as the training thread of every rank of one stage, beside its service thread.
class RankTest : public testing::Test {
 protected:
  using Body = std::function<void(RankParts&)>;
  RankTest() { configure_log("test", LogLevel::kError); }

  // `ends_well`: no service thread ends by an error.
  void run(int ranks, const Body& body, bool ends_well = true) {
    const Topology topology({ranks}, 1);
    SimulatedNetwork network(ranks, {.time_max = absl::Minutes(10)});
    std::vector<std::unique_ptr<RankParts>> parts(static_cast<size_t>(ranks));
    const auto of = [&](Transport& transport) -> RankParts& {
      auto& own = parts[static_cast<size_t>(transport.rank().value)];
      if (own == nullptr) own = std::make_unique<RankParts>(topology, transport, trainer_);
      return *own;
    };
    std::vector<int> running(static_cast<size_t>(ranks), 2);
    const auto leave = [&](Transport& transport) {
      const auto at = static_cast<size_t>(transport.rank().value);
      if (--running[at] == 0) parts[at].reset();
    };
    network_ = &network;
    table_.clear();
    for (int r = 0; r < ranks; ++r) {
      const ProcessNumber number =
          network.start(Rank(r), View(1),
                        {[&](Transport& transport) {
                           body(of(transport));
                           of(transport).end();
                           leave(transport);
                         },
                         [&](Transport& transport) {
                           const absl::Status served = of(transport).service.run();
                           EXPECT_TRUE(!ends_well || served.ok()) << served;
                           leave(transport);
                         }});
      table_.push_back({SimulatedNetwork::address(number), View(1)});
    }
    EXPECT_TRUE(network.run()) << network.waiting();
  }
  // The training thread does nothing for so long; the service thread goes on.
  void pause(absl::Duration time) { network_->pause(time); }
  PlanOf plan(uint32_t view) const {
    return PlanOf(view, static_cast<int>(table_.size())).at(table_);
  }

  TallyTrainer::Options trainer_;

 private:
  std::vector<PeerAddress> table_;
  SimulatedNetwork* network_ = nullptr;
};

}  // namespace evermoe
