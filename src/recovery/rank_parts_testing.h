// For tests: the real parts of a member, with a trainer that counts and a controller that listens.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "comm/transport/seated_transport.h"
#include "env/clock.h"
#include "recovery/control_testing.h"
#include "recovery/member/restore/restorer.h"
#include "recovery/member/serve/member_service.h"
#include "recovery/member/serve/own_memory.h"
#include "recovery/member/train/commit_agreement.h"
#include "recovery/tally_trainer_testing.h"

namespace evermoe {

// All parts of a member but its program. The test takes the training thread's part.
struct RankParts {
  RankParts(const Topology& topology, Transport& transport, const TallyTrainer::Options& options,
            double captured_per_second = 1 << 30, Clock& clock = real_clock())
      : topology(topology),
        transport(transport),
        clock(clock),
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
             .witnesses = witnesses,
             .report_trouble =
                 [this](View view, const absl::Status& status) { troubles.report(view, status); }}),
        own_memory(rank(), memory.store),
        peers({rank(), sender, transport, clock}, {}),
        joiner({rank(), other_process(rank(), topology.world_size()), transport, memory.store, told,
                clock, absl::Seconds(1)},
               {}),
        copies({.rank = rank(),
                .trainer = trainer,
                .schedule = window.schedule(),
                .store = memory.store,
                .sender = sender,
                .views = views,
                .control = told,
                .wake_training = wake,
                .clock = clock,
                .destinations = {&own_memory, &peers, &joiner}},
               {.chunk_bytes_max = 16, .bytes_per_second = captured_per_second}),
        commits(
            {.transport = transport,
             .world_size = topology.world_size(),
             .sender = sender,
             .views = views,
             .records = memory.records,
             .troubles = troubles,
             .settle = [this] { return settle(); },
             .vote = [this](bool ends_window) { return vote(ends_window); },
             .on_agreed = [this](View, Commit commit, const Record&) { agreed.push_back(commit); },
             .deadline = absl::Seconds(5)}),
        fetch({rank(), topology, memory.store, sender, views, troubles, told, refused, counts}),
        gradients({.rank = rank(),
                   .trainer = trainer,
                   .commits = commits,
                   .memory = memory,
                   .copies = copies,
                   .window = window,
                   .fetch = fetch}),
        restorer({.rank = rank(),
                  .topology = topology,
                  .trainer = trainer,
                  .views = views,
                  .control = told,
                  .troubles = troubles,
                  .commits = commits,
                  .memory = memory,
                  .copies = copies,
                  .window = window,
                  .fetch = fetch,
                  .gradients = gradients,
                  .counts = counts,
                  .witnesses = witnesses,
                  .bytes_at_once = 16}),
        answers({rank(), views, memory, copies, peers, joiner, exchange, sender, refused, wake,
                 /*is_rehearsal=*/true}),
        follower({.rank = rank(),
                  .stage = topology.role_of(rank()).stage,
                  .clock = clock,
                  .keeps_copies = true,
                  .transport = transport,
                  .wake_training = wake,
                  .sender = sender,
                  .orders = orders,
                  .views = views,
                  .leave = leave,
                  .control = told,
                  .troubles = troubles,
                  .memory = memory,
                  .copies = copies,
                  .peers = peers,
                  .joiner = joiner,
                  .exchange = exchange,
                  .on_opened = [this] { service.on_opened(); }}),
        probes(clock, std::make_shared<SentTraffic>(),
               [this](Rank to, MessageKind kind, MessageBytes bytes) {
                 sender.send(to, View(0), kind, std::move(bytes));
               }),
        service({transport, clock, views, copies, follower, answers, probes}) {}

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
    Record first{.state = Step(0)};
    first.rule = {Step(0), slots, slots};
    EXPECT_TRUE(memory.records.put(verdict_commit(Step(0)), encode(first)).ok());
    window.begin_run(first.rule);
  }
  // Agrees on the step that follows and runs it.
  void step(const ActiveOperators& active) {
    const Commit commit = verdict_commit(Step(trainer.step().value + 1));
    const auto findings = trainer.train(active, exchange, [](int) {});
    const auto record = commits.agree(commit, CommitAgreement::Kind::kStep, *findings);
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_TRUE(
        trainer.apply(record->combined, active, [this](int op) { return copies.wait_read(op); })
            .ok());
  }

  const Topology& topology;
  Transport& transport;
  Clock& clock;
  TallyTrainer trainer;
  ToldController told;
  std::vector<Commit> agreed;
  std::function<absl::Status()> settle = [this] { return copies.wait_settled(); };
  std::function<WindowVote(bool ends_window)> vote = [](bool) { return WindowVote{}; };
  Signal wake;
  MessageSender sender;
  MemberViews views;
  TroubleReporter troubles;
  WorkCounts counts;
  OrderQueue orders;
  RoleLeave leave;
  RefusedSlots refused;
  RecoveryMemory memory;
  Witnesses witnesses;
  WindowState window;
  BoundaryExchange exchange;
  OwnMemory own_memory;
  PeerMemory peers;
  JoinerMemory joiner;
  SnapshotCopies copies;
  CommitAgreement commits;
  WindowFetch fetch;
  GradientRestorer gradients;
  Restorer restorer;
  MessageAnswers answers;
  OrderFollower follower;
  LinkProbes probes;
  MemberService service;
};

}  // namespace evermoe
