// The program of a rank, run by whole members under a controller of a few lines.
#include "recovery/member/train/rank_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "recovery/member/member.h"
#include "recovery/rank_testing.h"

namespace evermoe {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

// Two members, each a stage of its own. When both have finished, they are released.
class RankProgramTest : public testing::Test {
 protected:
  struct Process {
    ProcessNumber number;
    std::unique_ptr<TallyTrainer> trainer;
    std::unique_ptr<Member> member;
    ToldController told;
    int threads = 2;
    std::vector<std::string> calls;
    std::vector<int64_t> masters;
    Step base_forgotten;
    MemberWork work;
    absl::Status result;
  };
  RankProgramTest() { configure_log("test", LogLevel::kError); }

  // Opens view 1, in which all begin; `on_told` may answer what members say with more orders.
  void run(std::function<void(const MemberMessage&)> on_told = {}) {
    constexpr int ranks = 2;
    const Topology topology({1, 1}, ranks);
    SimulatedNetwork network(ranks, {.time_max = time_max_});
    network_ = &network;
    processes_ = std::vector<Process>(static_cast<size_t>(ranks));
    int finished = 0;
    const auto of = [&](Transport& transport) -> Process& {
      Process& own = processes_[static_cast<size_t>(transport.rank().value)];
      if (own.member != nullptr) return own;
      own.trainer = std::make_unique<TallyTrainer>(trainer_);
      if (in_train_) own.trainer->in_train = std::bind_front(in_train_, transport.rank());
      own.member = std::make_unique<Member>(topology, transport, *own.trainer, own.told,
                                            real_clock(), options_);
      own.told.on_message = [&, on_told](const MemberMessage& message) {
        if (on_told) on_told(message);
        if (std::holds_alternative<Finished>(message) && ++finished == ranks)
          order_all(ReleaseOrder{});
      };
      own.member->receive(StopOrder{View(1)});
      own.member->receive(plan(1).restarting_all().plan());
      return own;
    };
    const auto leave = [&](Process& own) {
      if (--own.threads > 0) return;
      own.calls = own.trainer->calls;
      own.masters = own.trainer->masters;
      own.base_forgotten = own.trainer->base_forgotten;
      own.work = own.member->work();
      own.member.reset();
    };
    table_.clear();
    for (int r = 0; r < ranks; ++r) {
      const ProcessNumber number = network.start(Rank(r), View(1),
                                                 {[&](Transport& transport) {
                                                    Process& own = of(transport);
                                                    own.result = own.member->train();
                                                    leave(own);
                                                  },
                                                  [&](Transport& transport) {
                                                    Process& own = of(transport);
                                                    EXPECT_TRUE(own.member->serve().ok());
                                                    leave(own);
                                                  }});
      processes_[static_cast<size_t>(r)].number = number;
      table_.push_back({SimulatedNetwork::address(number), View(1)});
    }
    EXPECT_TRUE(network.run()) << network.waiting();
    for (const Process& process : processes_) EXPECT_TRUE(process.result.ok()) << process.result;
  }
  void pause(absl::Duration time) { network_->pause(time); }
  // Each of two ranks keeps the other one's copies.
  PlanOf plan(uint32_t view) const {
    return PlanOf(view, static_cast<int>(table_.size())).at(table_).held_by(0, 1).held_by(1, 0);
  }
  void order_all(const ControllerMessage& message) {
    for (Process& process : processes_) {
      if (process.member == nullptr) continue;
      process.member->enqueue(message);
      network_->deliver(process.number,
                        {View(0), kServiceGroup, static_cast<uint32_t>(MessageKind::kWake)}, {});
    }
  }

  TallyTrainer::Options trainer_{.operators = 2, .steps = 3};
  // What happens while a rank runs a step.
  std::function<absl::Status(Rank, Step, Boundary&)> in_train_;
  absl::Duration time_max_ = absl::Minutes(10);
  MemberOptions options_;
  std::vector<Process> processes_;

 private:
  std::vector<PeerAddress> table_;
  SimulatedNetwork* network_ = nullptr;
};

TEST_F(RankProgramTest, StepsEvaluationsSavesAndTheClosingComeInOrder) {
  trainer_.evaluate_every = 2;
  trainer_.save_every = 2;
  run();
  for (const Process& process : processes_) {
    EXPECT_THAT(process.calls,
                ElementsAre("join 1", "resume 0", "train 1", "train 2", "evaluate 20",
                            "evaluated 4", "save 2", "train 3", "close 3"));
    EXPECT_EQ(process.masters[0], TallyTrainer::after(3, 2));
    EXPECT_EQ(process.work.steps_trained, 3);
    EXPECT_EQ(process.work.steps_recomputed, 0);
  }
}

TEST_F(RankProgramTest, AnEvaluationHasACommitForEveryBatchAndOneResult) {
  trainer_.steps = 2;
  trainer_.evaluate_every = 2;
  trainer_.evaluation_batches = 3;
  run();
  for (const Process& process : processes_) {
    EXPECT_THAT(process.calls,
                ElementsAre("join 1", "resume 0", "train 1", "train 2", "evaluate 20",
                            "evaluate 21", "evaluate 22", "evaluated 12", "close 2"));
    EXPECT_EQ(process.work.evaluations, 3);
    EXPECT_EQ(process.told.all<Progress>()[4].newest, evaluation_commit(Step(2), 2));
  }
}

// Rank 1 has made step 2 and its evaluation when its stage has to go back to the beginning.
TEST_F(RankProgramTest, CommitsThatTheJobHasMadeAreAnsweredFromTheRecords) {
  options_.strategy.captures.slots = 2;
  trainer_.evaluate_every = 2;
  trainer_.save_every = 2;
  bool has_stopped = false;
  run([&](const MemberMessage& message) {
    const auto* const progress = std::get_if<Progress>(&message);
    if (progress == nullptr || progress->newest < evaluation_commit(Step(2)) || has_stopped) return;
    has_stopped = true;
    order_all(StopOrder{View(2)});
    order_all(
        plan(2).up_to(evaluation_commit(Step(2)), progress->rank.value).back_to_base({1}).plan());
  });
  EXPECT_TRUE(has_stopped);
  const Process& kept = processes_[0];
  const Process& went_back = processes_[1];
  EXPECT_EQ(kept.work.steps_recomputed, 0) << "its stage never left its step";
  EXPECT_EQ(went_back.work.steps_recomputed, 2);
  EXPECT_EQ(went_back.work.evaluations, kept.work.evaluations) << "its record was there";
  EXPECT_THAT(went_back.calls, Contains("evaluated 4"));
  EXPECT_EQ(went_back.masters, kept.masters);
}

TEST_F(RankProgramTest, AProtectedRankKeepsCopiesOfWindowAfterWindow) {
  trainer_.steps = 7;
  options_.strategy.captures.slots = 2;
  options_.copies.chunk_bytes_max = 16;
  run();
  for (const Process& process : processes_) {
    const auto progress = process.told.all<Progress>();
    EXPECT_GE(progress.back().complete_window, Step(4))
        << "complete one step after its last slot at the latest";
    EXPECT_GT(progress.back().snapshot_bytes, 0);
  }
}

// Rank 0 waits for its verdict while rank 1 gathers a state and runs slow steps again. Who is lost
// is reported by the transport, who hangs is found by the controller; here nobody is to blame.
TEST_F(RankProgramTest, NobodyEndsAWaitThatARecoveryMayTake) {
  time_max_ = absl::Hours(200);
  in_train_ = [this](Rank rank, Step step, Boundary&) {
    if (rank == Rank(1) && step == Step(2)) pause(absl::Hours(100));
    return absl::OkStatus();
  };
  run();
  for (const Process& process : processes_) {
    EXPECT_THAT(process.told.all<Trouble>(), IsEmpty());
    EXPECT_EQ(process.work.steps_recomputed, 0);
  }
}

// Two stages: the first sends an activation and waits for its gradient.
absl::Status exchange(Rank rank, Step step, Boundary& boundary) {
  const auto bytes = std::make_shared<std::vector<std::byte>>(100, std::byte(step.value));
  std::vector<std::byte> into(100);
  const Rank other(1 - rank.value);
  const auto forward = BoundaryDirection::kActivation, back = BoundaryDirection::kGradient;
  if (rank == Rank(0)) {
    RETURN_IF_ERROR(boundary.send(other, forward, MicroBatch(0), {*bytes, bytes}));
    return boundary.receive(other, back, MicroBatch(0), into);
  }
  RETURN_IF_ERROR(boundary.receive(other, forward, MicroBatch(0), into));
  return boundary.send(other, back, MicroBatch(0), {*bytes, bytes});
}

// The boundary log has room for the three steps that it is made for, also when all run steps again.
TEST_F(RankProgramTest, WhereAllGoBackTheLogHoldsNoMoreThanWithoutAFailure) {
  options_.strategy = strategy_of(StrategyKind::kPeerMemory);
  options_.strategy.captures = {.slots = 1, .slots_max = 1, .period = 6};
  options_.log_bytes_max = 3 * 100;
  trainer_.steps = 8;
  in_train_ = exchange;
  bool has_stopped = false;
  run([&](const MemberMessage& message) {
    const auto* const progress = std::get_if<Progress>(&message);
    const Commit fifth = verdict_commit(Step(5));
    if (progress == nullptr || progress->newest < fifth || has_stopped) return;
    has_stopped = true;
    order_all(StopOrder{View(2)});
    order_all(plan(2).up_to(fifth, progress->rank.value).back_to_window(0, {0, 1}).plan());
  });
  EXPECT_TRUE(has_stopped);
  for (const Process& process : processes_) {
    EXPECT_EQ(process.work.steps_recomputed, 5);
    EXPECT_EQ(process.masters[0], TallyTrainer::after(8, 2));
  }
}

// Rank 1's stage begins anew after step 5, of which rank 1 has made the update already or not.
TEST_F(RankProgramTest, WhereGradientsAreKeptAStageKeepsItsStateAndDoesNothingTwice) {
  options_.strategy = strategy_of(StrategyKind::kGradients);
  options_.strategy.captures = {.slots = 1, .slots_max = 1, .period = 3};
  options_.log_bytes_max = 3 * 100;
  trainer_.steps = 8;
  trainer_.evaluate_every = 5;
  in_train_ = exchange;
  for (const Commit when : {verdict_commit(Step(5)), evaluation_commit(Step(5))}) {
    bool has_stopped = false;
    run([&](const MemberMessage& message) {
      const auto* const progress = std::get_if<Progress>(&message);
      if (progress == nullptr || progress->newest < when || has_stopped) return;
      has_stopped = true;
      order_all(StopOrder{View(2)});
      order_all(plan(2).up_to(when, progress->rank.value).back_to_window(3, {1}).plan());
    });
    EXPECT_TRUE(has_stopped);
    for (const Process& process : processes_) {
      EXPECT_EQ(process.work.steps_recomputed, 0);
      EXPECT_EQ(process.masters[0], TallyTrainer::after(8, 2));
      EXPECT_EQ(std::ranges::count(process.calls, "evaluated 4"), 1);
    }
    EXPECT_LE(processes_[1].work.steps_trained, 9) << "the step under way, at most, ran again";
  }
}

// If all who have made the commit with the first complete window are lost at once, the others go
// back to the base.
TEST_F(RankProgramTest, TheBaseIsKeptUntilAllKnowOfACompleteWindow) {
  trainer_.steps = 7;
  options_.strategy.captures.slots = 2;
  run();
  for (const Process& process : processes_) {
    const auto progress = process.told.all<Progress>();
    const auto first = std::ranges::find_if(
        progress, [](const Progress& one) { return one.complete_window >= Step(0); });
    ASSERT_NE(first, progress.end());
    EXPECT_EQ(process.base_forgotten, Step(step_of(first->newest).value + 1));
  }
}

}  // namespace
}  // namespace evermoe
