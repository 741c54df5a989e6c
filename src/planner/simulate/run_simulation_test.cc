// Runs under failures written down by hand, so that every second can be counted.
#include "planner/simulate/run_simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "planner/failures/failure_trace.h"

namespace evermoe {
namespace {

using Kind = AvailabilityEvent::Kind;
using enum StateProtection;

// Nodes 0 .. nodes - 1 are up at the start.
FailureTrace script(int nodes, std::vector<FailureTrace::Event> events) {
  FailureTrace trace;
  for (int n = 0; n < nodes; ++n) trace.nodes.push_back(std::to_string(n));
  trace.up_at_start.assign(static_cast<size_t>(nodes), true);
  trace.events = std::move(events);
  return trace;
}

SimulatedRun play(const TrainedJob& job, const RunStrategy& strategy, const FailureTrace& trace,
                  double seconds) {
  return simulate_run(job, strategy, *play_availability(trace), {.wall_seconds = seconds});
}

RunStrategy dense(StateProtection protection, int64_t every, double stall) {
  RunStrategy strategy{.protection = protection};
  strategy.save = {every, stall, 0};
  strategy.recovery = {
      .detect = 1, .restart = 10, .standby = 2, .load_memory = 3, .load_durable = 20};
  return strategy;
}

TEST(RunSimulationTest, WithoutFailuresOnlySavesCost) {
  const SimulatedRun run = play({}, dense(kDurable, 10, 2), script(1, {}), 120);
  EXPECT_EQ(run.useful_seconds, 100);
  EXPECT_EQ(run.protection_seconds, 20);
  EXPECT_EQ(run.interruptions, 0);
}

// A failure 7 s after the save of step 20 (24 s): back to it, 31 s later on. 150 - 31 - 31 = 88
// left.
TEST(RunSimulationTest, ACrashGoesBackToTheNewestSave) {
  const SimulatedRun run =
      play({}, dense(kDurable, 10, 2), script(1, {{31, Kind::kCrash, {0}}}), 150);
  EXPECT_EQ(run.rework_seconds, 7);
  EXPECT_EQ(run.recovery_seconds, 31);
  EXPECT_EQ(run.useful_seconds, 20 + 74);  // 88 s: 7 tens with saves (84) and 4 steps
  EXPECT_EQ(run.wall_seconds, 150);
}

// What all nodes share fails: the copies are gone with everything else, and the spare is no warm
// standby.
TEST(RunSimulationTest, AFailureOfTheWholeJobLeavesDurableSavesOnly) {
  RunStrategy strategy = dense(kPeerMemory, 1, 0);
  strategy.replacement = NodeReplacement::kStandby;
  strategy.copies = 2;
  strategy.fallback = {40, 0, 0};
  const TrainedJob job{.step_seconds = 1, .nodes = 4};
  const SimulatedRun one = play(job, strategy, script(5, {{100, Kind::kCrash, {1}}}), 200);
  EXPECT_EQ(one.fallbacks, 0);
  EXPECT_EQ(one.recovery_seconds, 1 + 2 + 3);
  const SimulatedRun all =
      play(job, strategy, script(5, {{100, Kind::kCrash, {0, 1, 2, 3, 4}}}), 200);
  EXPECT_EQ(all.fallbacks, 1);
  EXPECT_EQ(all.rework_seconds, 20);
  EXPECT_EQ(all.detection_seconds, 1);
  EXPECT_EQ(all.change_seconds, 10);
  EXPECT_EQ(all.restore_seconds(), 20);
}

TEST(RunSimulationTest, SpansShowWhatWasLostAndWhy) {
  std::vector<RunSpan> spans;
  const FailureTrace trace = script(1, {{31, Kind::kDown, {0}}, {50, Kind::kUp, {0}}});
  simulate_run({}, dense(kDurable, 10, 2), *play_availability(trace), {.wall_seconds = 100},
               &spans);
  using enum RunSpan::Kind;
  const std::vector<RunSpan> expected{
      {kTraining, 0, 24},  {kLost, 24, 31},      {kWaiting, 31, 50},  {kDetecting, 50, 51},
      {kChanging, 51, 61}, {kRestoring, 61, 81}, {kTraining, 81, 100}};
  EXPECT_EQ(spans, expected);
}

TEST(RunSimulationTest, AFailureDuringTheRecoveryStartsItAgain) {
  const SimulatedRun run = play({}, dense(kDurable, 10, 2),
                                script(1, {{31, Kind::kCrash, {0}}, {41, Kind::kCrash, {0}}}), 73);
  EXPECT_EQ(run.interruptions, 2);
  EXPECT_EQ(run.recoveries, 1);
  EXPECT_EQ(run.recovery_seconds, 10 + 31);
  EXPECT_EQ(run.rework_seconds, 7);
}

TEST(RunSimulationTest, WithoutASpareTheJobWaitsForTheRepair) {
  const FailureTrace trace = script(2, {{31, Kind::kDown, {1}}, {91, Kind::kUp, {1}}});
  const SimulatedRun run = play({.nodes = 2}, dense(kDurable, 10, 2), trace, 122);
  EXPECT_EQ(run.waiting_seconds, 60);
  EXPECT_EQ(run.recovery_seconds, 31);
}

TEST(RunSimulationTest, AStandbyIsWarmOnlyIfItIsThere) {
  RunStrategy strategy = dense(kPeerMemory, 1, 0);
  strategy.replacement = NodeReplacement::kStandby;
  const FailureTrace trace =
      script(3, {{10.5, Kind::kDown, {0}}, {100.5, Kind::kDown, {1}}, {200, Kind::kUp, {0}}});
  const SimulatedRun run = play({.nodes = 2}, strategy, trace, 300);
  EXPECT_EQ(run.recovery_seconds, (1 + 2 + 3) + (1 + 10 + 3));
  EXPECT_EQ(run.waiting_seconds, 99.5);
}

TEST(RunSimulationTest, CopiesLostTogetherMeanTheDurableSave) {
  RunStrategy strategy = dense(kPeerMemory, 1, 0);
  strategy.fallback = {50, 0, 0};
  const TrainedJob job{.nodes = 4};
  // Place 1's copy is at place 2.
  const SimulatedRun together = play(job, strategy, script(4, {{80, Kind::kCrash, {1, 2}}}), 200);
  EXPECT_EQ(together.fallbacks, 1);
  EXPECT_EQ(together.rework_seconds, 30);
  EXPECT_EQ(together.recovery_seconds, 31);
  const SimulatedRun apart = play(job, strategy, script(4, {{80, Kind::kCrash, {1, 3}}}), 200);
  EXPECT_EQ(apart.fallbacks, 0);
  EXPECT_EQ(apart.rework_seconds, 0);
  strategy.copies = 2;
  EXPECT_EQ(play(job, strategy, script(4, {{80, Kind::kCrash, {1, 2}}}), 200).fallbacks, 0);
}

// The runtime goes back to copies in memory or, before there are any, to where the job began
// (recovery/plan/make_plan.h), not to a durable save that is newer.
TEST(RunSimulationTest, ANewerDurableSaveIsNotWhatCopiesGoBackTo) {
  RunStrategy strategy = dense(kPeerMemory, 60, 0);
  strategy.fallback = {50, 0, 0};
  const auto crashed_at = [&](double seconds) {
    return play({.nodes = 4}, strategy, script(4, {{seconds, Kind::kCrash, {1}}}), 400);
  };
  EXPECT_EQ(crashed_at(110).rework_seconds, 50);  // the copies of step 60
  EXPECT_EQ(crashed_at(55).rework_seconds, 55);
  EXPECT_EQ(crashed_at(55).restore_seconds(), 20);
  strategy.step_again_seconds = 2;
  EXPECT_EQ(crashed_at(110).restore_seconds(), 3 + 50 * 2);
  EXPECT_EQ(crashed_at(55).restore_seconds(), 20 + 55 * 2);
  strategy.protection = kStageMemory;
  EXPECT_EQ(crashed_at(55).restore_seconds(), 20 + 55 * 2);
}

// The holder that came back has nothing yet, until the next save.
TEST(RunSimulationTest, CopiesAreBareAfterARecovery) {
  RunStrategy strategy = dense(kPeerMemory, 10, 0);
  const TrainedJob job{.nodes = 4};
  const auto second_at = [&](double seconds) {
    return play(job, strategy, script(4, {{80, Kind::kCrash, {2}}, {seconds, Kind::kCrash, {1}}}),
                300)
        .fallbacks;
  };
  EXPECT_EQ(second_at(94 + 9), 1);
  EXPECT_EQ(second_at(94 + 11), 0);
}

TEST(RunSimulationTest, RacksKeepCopiesOfEachOther) {
  RunStrategy strategy = dense(kPeerMemory, 1, 0);
  const FailureTrace trace = script(6, {{80, Kind::kCrash, {0, 1, 2}}});
  EXPECT_EQ(play({.nodes = 6}, strategy, trace, 200).fallbacks, 1);
  EXPECT_EQ(play({.nodes = 6, .racks = 2}, strategy, trace, 200).fallbacks, 0);
}

// Window 4: steps 1-4 are complete at the end of step 5. In step 11 (10.25): the window 5-8 was
// complete at the end of step 9. 3 steps of conversion, 2.25 again.
TEST(RunSimulationTest, SparseCatchUpFromTheNewestCompleteWindow) {
  RunStrategy strategy{.protection = kSparse};
  strategy.sparse = {.window = 4, .conversion_seconds = 3};
  strategy.recovery = {.detect = 1, .restart = 10, .load_memory = 2};
  const TrainedJob job{.nodes = 2};
  const SimulatedRun run = play(job, strategy, script(2, {{10.25, Kind::kCrash, {0}}}), 100);
  EXPECT_EQ(run.recovery_seconds, 13 + 3 + 2.25);
  EXPECT_EQ(run.rework_seconds, 0);
  EXPECT_EQ(run.useful_seconds, 100 - 18.25);
  // In step 9 the window 5-8 is not complete yet.
  EXPECT_EQ(play(job, strategy, script(2, {{8.5, Kind::kCrash, {0}}}), 100).recovery_seconds,
            13 + 3 + 4.5);
  // Before the first window the source is the initial state: nothing to load or convert.
  EXPECT_EQ(play(job, strategy, script(2, {{3.5, Kind::kCrash, {0}}}), 100).recovery_seconds,
            11 + 3.5);
}

TEST(RunSimulationTest, OnlyTheStagesThatLostANodeCatchUp) {
  RunStrategy strategy{.protection = kSparse, .copies = 3};
  strategy.sparse = {.window = 1};
  const TrainedJob job{.nodes = 8, .stages = 4, .rounds = 5};
  const auto seconds = [&](std::vector<int> nodes) {
    return play(job, strategy, script(8, {{10.5, Kind::kCrash, std::move(nodes)}}), 100)
        .recovery_seconds;
  };
  EXPECT_DOUBLE_EQ(seconds({2}), 1.5 * 5 / 8);     // stage 1 alone
  EXPECT_DOUBLE_EQ(seconds({2, 3}), 1.5 * 5 / 8);  // the same stage
  EXPECT_DOUBLE_EQ(seconds({2, 4}), 1.5 * 6 / 8);  // stages 1 and 2, joint
  EXPECT_DOUBLE_EQ(seconds({0, 4}), 1.5 * 5 / 8);  // stages 0 and 2 at the same time
}

TEST(RunSimulationTest, ReplicasLoseOnlyTheStepUnderWay) {
  RunStrategy strategy{.protection = kReplicas, .replacement = NodeReplacement::kElastic};
  strategy.recovery = {.reconfigure = 30, .grow = 5, .grow_wait = 60};
  const FailureTrace trace = script(4, {{10.5, Kind::kDown, {3}}, {100.5, Kind::kUp, {3}}});
  const SimulatedRun run = play({.nodes = 4, .nodes_least = 2}, strategy, trace, 265.5);
  EXPECT_EQ(run.rework_seconds, 0.5);
  EXPECT_EQ(run.shrinks, 1);
  EXPECT_EQ(run.recovery_seconds, 30 + 5);
  EXPECT_EQ(run.shrunk_seconds, (160.5 - 40.5) / 4);
  EXPECT_EQ(run.useful_seconds, 10 + 90 + 100);
}

// 8 nodes in 2 stages of 4: with 7 one stage has 3, and so the other needs no more; with 5 there
// are 2 and 3.
TEST(RunSimulationTest, APipelineShrinksByWholeRowsOfNodes) {
  const RunStrategy strategy{
      .protection = kReplicas, .replacement = NodeReplacement::kElastic, .copies = 7};
  const FailureTrace trace = script(
      8, {{10, Kind::kDown, {7}}, {20, Kind::kDown, {5, 6}}, {30, Kind::kDown, {0, 1, 2, 3}}});
  const SimulatedRun run = play({.nodes = 8, .elastic_unit = 2}, strategy, trace, 50);
  EXPECT_EQ(run.shrunk_seconds, 10 * 0.25 + 10 * 0.5);
  EXPECT_EQ(run.waiting_seconds, 20);  // a stage without a node
}

TEST(RunSimulationTest, AnElasticJobWaitsBelowItsLeastSize) {
  RunStrategy strategy{
      .protection = kReplicas, .replacement = NodeReplacement::kElastic, .copies = 3};
  const FailureTrace trace =
      script(4, {{10, Kind::kDown, {2, 3}}, {20, Kind::kDown, {1}}, {70, Kind::kUp, {1}}});
  const SimulatedRun run = play({.nodes = 4, .nodes_least = 2}, strategy, trace, 100);
  EXPECT_EQ(run.waiting_seconds, 50);
  EXPECT_EQ(run.shrinks, 2);
}

TEST(RunSimulationTest, AnnouncedNodesAreLeftByMigrationWhileThereAreSpares) {
  RunStrategy strategy = dense(kDurable, 10, 2);
  strategy.migrates = true;
  strategy.recovery.migrate = 6;
  const FailureTrace trace = script(3, {{31, Kind::kAnnounced, {0}}});
  const SimulatedRun moved = play({.nodes = 2}, strategy, trace, 100);
  EXPECT_EQ(moved.migrations, 1);
  EXPECT_EQ(moved.interruptions, 0);
  EXPECT_EQ(moved.recovery_seconds, 6);
  EXPECT_EQ(moved.rework_seconds, 0);
  strategy.migrates = false;
  const SimulatedRun restarted = play({.nodes = 2}, strategy, trace, 100);
  EXPECT_EQ(restarted.interruptions, 1);
  EXPECT_EQ(restarted.recovery_seconds, 2 + 10 + 20);  // a save, then a restart from it
  EXPECT_EQ(restarted.rework_seconds, 0);
}

TEST(RunSimulationTest, AnAnnouncedLossIsAMoveAndNotALoss) {
  RunStrategy strategy = dense(kPeerMemory, 10, 0);
  strategy.replacement = NodeReplacement::kStandby;
  strategy.migrates = true;
  strategy.recovery.migrate = 0.5;
  const auto run = [&](Kind kind) {
    return play({.nodes = 2}, strategy, script(3, {{37, kind, {0}}}), 100);
  };
  const SimulatedRun told = run(Kind::kAnnounced), lost = run(Kind::kDown);
  EXPECT_EQ(told.useful_seconds, 99.5);
  EXPECT_EQ(told.recovery_seconds, 0.5);
  EXPECT_EQ(told.rework_seconds, 0);
  EXPECT_EQ(told.interruptions, 0);
  EXPECT_EQ(lost.recovery_seconds, 1 + 2 + 3);
  EXPECT_EQ(lost.rework_seconds, 7);
  EXPECT_EQ(lost.interruptions, 1);
}

// Its standbys end with it.
TEST(RunSimulationTest, ADrainedJobStartsAgainCold) {
  RunStrategy strategy = dense(kDurable, 10, 2);
  strategy.replacement = NodeReplacement::kStandby;
  const auto seconds = [&](Kind kind) {
    return play({.nodes = 2}, strategy, script(4, {{31, kind, {0}}}), 100).recovery_seconds;
  };
  EXPECT_EQ(seconds(Kind::kAnnounced), 2 + 10 + 20);
  EXPECT_EQ(seconds(Kind::kDown), 1 + 2 + 20);
  strategy.replacement = NodeReplacement::kElastic;
  EXPECT_EQ(seconds(Kind::kAnnounced), 2 + 10 + 20);
}

TEST(RunSimulationTest, AnElasticJobLeavesAnnouncedNodesForSparesOrGivesThemUp) {
  RunStrategy strategy = dense(kPeerMemory, 10, 0);
  strategy.replacement = NodeReplacement::kElastic;
  strategy.copies = 3;
  strategy.migrates = true;
  strategy.recovery.reconfigure = 30;
  strategy.recovery.migrate = 6;
  const TrainedJob job{.nodes = 4, .nodes_least = 2};
  const auto run = [&](int nodes, Kind kind) {
    return play(job, strategy, script(nodes, {{37, kind, {0}}}), 100);
  };
  EXPECT_EQ(run(5, Kind::kAnnounced).recovery_seconds, 6);
  EXPECT_EQ(run(5, Kind::kAnnounced).shrinks, 0);
  const SimulatedRun told = run(4, Kind::kAnnounced), lost = run(4, Kind::kDown);
  EXPECT_EQ(told.shrinks, 1);
  EXPECT_EQ(told.rework_seconds, 7) << "its roles are taken away from it, and peers have copies";
  EXPECT_EQ(told.recovery_seconds, 30 + 3);
  EXPECT_EQ(lost.recovery_seconds, 1 + 30 + 3);
}

TEST(RunSimulationTest, AJobOfSoManyStepsEndsWithItsLastSave) {
  const FailureTrace trace = script(1, {{15, Kind::kCrash, {0}}});
  const SimulatedRun run =
      simulate_run({}, dense(kDurable, 10, 2), *play_availability(trace), {.steps = 40});
  EXPECT_EQ(run.useful_seconds, 40);
  EXPECT_EQ(run.wall_seconds, 48 + 3 + 31);
}

TEST(RunSimulationTest, WaitingForEverEndsTheRun) {
  const FailureTrace trace = script(1, {{15, Kind::kDown, {0}}});
  const SimulatedRun run =
      simulate_run({}, dense(kDurable, 10, 2), *play_availability(trace), {.steps = 40});
  EXPECT_EQ(run.wall_seconds, 15);
  EXPECT_EQ(run.useful_seconds, 13);
}

// Recorded availability: without costs of its own, an elastic job of 16 nodes trains as fast as the
// trace has nodes; a job that needs all 16 trains while they are there.
TEST(RunSimulationTest, ARecordedTraceIsPlayed) {
  std::ifstream file(std::string(EVERMOE_SOURCE_DIR) + "/data/planner/bamboo-ec2-p3.csv");
  std::stringstream text;
  text << file.rdbuf();
  const FailureTrace trace = parse_instance_trace(text.str(), "bamboo").value();
  double elastic = 0, whole = 0, last = 0;
  int up = static_cast<int>(std::count(trace.up_at_start.begin(), trace.up_at_start.end(), true));
  auto pass = [&](double until) {
    elastic += std::min(up, 16) / 16.0 * (until - last);
    whole += up >= 16 ? until - last : 0;
    last = until;
  };
  for (const FailureTrace::Event& event : trace.events) {
    pass(event.seconds);
    up += (event.kind == Kind::kUp ? 1 : -1) * static_cast<int>(event.nodes.size());
  }
  pass(trace.end_seconds);
  RunStrategy strategy{
      .protection = kReplicas, .replacement = NodeReplacement::kElastic, .copies = 15};
  // Only the steps under way are lost: very short ones, nearly nothing.
  const TrainedJob job{.step_seconds = 1e-6, .nodes = 16};
  EXPECT_NEAR(play(job, strategy, trace, trace.end_seconds).useful_seconds, elastic, 0.01);
  strategy.replacement = NodeReplacement::kRestart;
  EXPECT_NEAR(play(job, strategy, trace, trace.end_seconds).useful_seconds, whole, 0.01);
  EXPECT_GT(elastic, whole);
}

}  // namespace
}  // namespace evermoe
