#include "faults/fault_trigger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "faults/fault_points.h"
#include "faults/fault_script.h"
#include "faults/timed_faults.h"

namespace evermoe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Indices = std::vector<int>;

constexpr FaultRole kHere{0, 1};
constexpr int kNode = 2;

FaultScript script_of(const std::string& text) {
  const auto script = parse_fault_script(text, "t", {.lanes = {2, 2}, .nodes = 3});
  EXPECT_TRUE(script.ok()) << script.status();
  return script.ok() ? *script : FaultScript{};
}

// A script with one fault of the worker kHere.
FaultScript kill(const std::string& when) {
  return script_of("[[fault]]\nkind = \"kill_worker\"\nstage = 0\nlane = 1\n" + when);
}

Indices indices(const std::vector<Fault>& faults) {
  Indices result;
  for (const Fault& fault : faults) result.push_back(fault.index);
  return result;
}

// One worker on its way through its points.
struct Worker {
  explicit Worker(const FaultScript& script, FaultRole role = kHere, int node = kNode,
                  const std::set<int>& injected = {}, bool is_newcomer = false)
      : trigger(script, role, node, injected, is_newcomer) {}
  Indices pass(const char* point, int64_t step, int recovery = 0) {
    return indices(trigger.on_point(point, Step(step), recovery));
  }
  FaultTrigger trigger;
};

TEST(FaultTrigger, FiresAtTheStepAndPointOnce) {
  Worker worker(kill("step = 3\npoint = \"step/backward\""));
  EXPECT_THAT(worker.pass("step/backward", 2), IsEmpty());
  EXPECT_THAT(worker.pass("step/forward", 3), IsEmpty());
  EXPECT_FALSE(worker.trigger.is_spent());
  EXPECT_THAT(worker.pass("step/backward", 3), ElementsAre(0));
  EXPECT_TRUE(worker.trigger.is_spent());
  EXPECT_THAT(worker.pass("step/backward", 3), IsEmpty());
}

TEST(FaultTrigger, WithoutAPointAtTheFirstForward) {
  Worker worker(kill("step = 1"));
  EXPECT_THAT(worker.pass("step/forward", 1), ElementsAre(0));
}

TEST(FaultTrigger, SparesOtherWorkers) {
  EXPECT_TRUE(Worker(kill("step = 1"), {0, 0}).trigger.is_spent());
  EXPECT_TRUE(Worker(kill("step = 1"), {1, 1}).trigger.is_spent());
}

TEST(FaultTrigger, PassingsOfThePointAreCountedWithinTheStep) {
  Worker worker(kill("step = 2\nreached = 2"));
  for (int i = 0; i < 5; ++i) EXPECT_THAT(worker.pass("step/forward", 1), IsEmpty());
  EXPECT_THAT(worker.pass("step/forward", 2), IsEmpty());
  EXPECT_THAT(worker.pass("step/backward", 2), IsEmpty());
  EXPECT_THAT(worker.pass("step/forward", 2), IsEmpty());
  EXPECT_THAT(worker.pass("step/forward", 2), ElementsAre(0));
}

TEST(FaultTrigger, WhatIsPassedBesideTheStepMayComeInALaterOne) {
  for (const char* point : {"capture/copied", "capture/sent", "copy/stored", "save/copying"}) {
    SCOPED_TRACE(point);
    Worker worker(kill(absl::StrCat("step = 3\nreached = 1\npoint = \"", point, "\"")));
    EXPECT_THAT(worker.pass(point, 2), IsEmpty());
    EXPECT_THAT(worker.pass(point, 4), IsEmpty());
    EXPECT_THAT(worker.pass(point, 6), ElementsAre(0));
  }
}

TEST(FaultTrigger, AFreshProcessIsNotHitAgain) {
  const FaultScript script = kill("step = 3");
  EXPECT_THAT(Worker(script).pass("step/forward", 3), ElementsAre(0));
  Worker replaced(script, kHere, kNode, {0});
  EXPECT_TRUE(replaced.trigger.is_spent());
  EXPECT_THAT(replaced.pass("step/forward", 3), IsEmpty());
}

TEST(FaultTrigger, OnlyInTheRecoveryThatIsNamed) {
  Worker worker(kill("in_recovery = 2\npoint = \"catch_up/step\"\nreached = 1"));
  EXPECT_THAT(worker.pass("catch_up/step", 4, 1), IsEmpty());
  EXPECT_THAT(worker.pass("catch_up/step", 5, 1), IsEmpty());
  EXPECT_THAT(worker.pass("catch_up/step", 4, 0), IsEmpty());
  EXPECT_THAT(worker.pass("catch_up/step", 4, 2), IsEmpty());
  EXPECT_THAT(worker.pass("catch_up/step", 5, 2), ElementsAre(0));
}

TEST(FaultTrigger, AStepInARecovery) {
  Worker worker(kill("in_recovery = 1\nstep = 5\npoint = \"catch_up/step\""));
  EXPECT_THAT(worker.pass("catch_up/step", 4, 1), IsEmpty());
  EXPECT_THAT(worker.pass("catch_up/step", 5, 2), IsEmpty());
  EXPECT_THAT(worker.pass("catch_up/step", 5, 1), ElementsAre(0));
}

TEST(FaultTrigger, WithoutARecoveryNamedInAnyOrNone) {
  EXPECT_THAT(Worker(kill("step = 5")).pass("step/forward", 5, 0), ElementsAre(0));
  EXPECT_THAT(Worker(kill("step = 5")).pass("step/forward", 5, 7), ElementsAre(0));
}

TEST(FaultTrigger, FaultsOfOneMomentFireTogetherInOrder) {
  const std::string at = "stage = 0\nlane = 1\nstep = 2\n";
  Worker worker(script_of("[[fault]]\nkind = \"corrupt_copy\"\n" + at +
                          "[[fault]]\nkind = \"kill_worker\"\n" + at + "reached = 1\n" +
                          "[[fault]]\nkind = \"kill_worker\"\n" + at));
  EXPECT_THAT(worker.pass("step/forward", 2), ElementsAre(0, 2));
  EXPECT_THAT(worker.pass("step/forward", 2), ElementsAre(1));
}

TEST(FaultTrigger, AnyWorkerOfTheNodeTakesItDown) {
  const FaultScript script = script_of("[[fault]]\nkind = \"kill_node\"\nnode = 2\nstep = 1");
  EXPECT_THAT(Worker(script, {1, 0}, 2).pass("step/forward", 1), ElementsAre(0));
  EXPECT_THAT(Worker(script, {0, 1}, 2).pass("step/forward", 1), ElementsAre(0));
  EXPECT_THAT(Worker(script, {0, 0}, 0).pass("step/forward", 1), IsEmpty());
}

TEST(FaultTrigger, OneWorkersPassingKillsTheController) {
  const std::string text = "[[fault]]\nkind = \"kill_controller\"\nstep = 1\n";
  EXPECT_THAT(Worker(script_of(text), {0, 0}).pass("step/forward", 1), ElementsAre(0));
  EXPECT_THAT(Worker(script_of(text), kHere).pass("step/forward", 1), IsEmpty());
  EXPECT_THAT(Worker(script_of(text + "stage = 0\nlane = 1")).pass("step/forward", 1),
              ElementsAre(0));
}

TEST(FaultTrigger, FaultsByTimeAreNotItsBusiness) {
  EXPECT_TRUE(Worker(kill("after_seconds = 0")).trigger.is_spent());
}

// The trigger against the sentence that defines it: a fault is injected at the passing of its
// point, under its conditions, that has `reached` earlier ones.
TEST(FaultTrigger, AgreesWithCountingOnRandomWalks) {
  const char* points[] = {"step/forward", "capture/sent", "catch_up/step"};
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
    FaultScript script;
    for (int i = 0; i < 20; ++i) {
      Fault fault{.index = i, .role = {0, below(2)}};
      fault.moment = FaultMoment{.point = points[below(3)], .reached = below(4)};
      if (below(3) > 0) fault.moment->step = Step(1 + below(3));
      if (below(2) > 0) fault.moment->recovery = 1 + below(2);
      script.faults.push_back(fault);
    }
    Worker worker(script);
    std::map<int, int64_t> met;
    for (int i = 0; i < 100; ++i) {
      const char* point = points[below(3)];
      const int64_t step = 1 + below(3);
      const int recovery = below(3);
      Indices expected;
      for (const Fault& fault : script.faults) {
        const FaultMoment& moment = *fault.moment;
        if (fault.role == kHere && moment.point == point &&
            (moment.point == "capture/sent" ? moment.step.value_or(Step(0)) <= Step(step)
                                            : moment.step.value_or(Step(step)) == Step(step)) &&
            moment.recovery.value_or(recovery) == recovery &&
            met[fault.index]++ == moment.reached) {
          expected.push_back(fault.index);
        }
      }
      EXPECT_EQ(worker.pass(point, step, recovery), expected);
    }
  }
}

FaultScript timed_script() {
  return script_of(
      "[[fault]]\nkind = \"kill_controller\"\nafter_seconds = 5\n"
      "[[fault]]\nkind = \"kill_node\"\nnode = 1\nafter_seconds = 2.5\n"
      "[[fault]]\nkind = \"kill_node\"\nnode = 1\nstep = 1\n"
      "[[fault]]\nkind = \"stop_worker\"\nstage = 0\nlane = 0\nafter_seconds = 5\n");
}

TEST(TimedFaults, FireWhenTheirTimeHasComeOnce) {
  TimedFaults faults(timed_script(), {});
  EXPECT_EQ(faults.next_seconds(), 2.5);
  EXPECT_THAT(faults.due(2.4), IsEmpty());
  EXPECT_THAT(indices(faults.due(2.5)), ElementsAre(1));
  EXPECT_EQ(faults.next_seconds(), 5.0);
  EXPECT_THAT(indices(faults.due(100)), ElementsAre(0, 3));
  EXPECT_THAT(faults.due(200), IsEmpty());
  EXPECT_EQ(faults.next_seconds(), std::nullopt);
}

TEST(TimedFaults, TheEarliestComesFirst) {
  TimedFaults faults(timed_script(), {});
  EXPECT_THAT(indices(faults.due(10)), ElementsAre(1, 0, 3));
}

TEST(TimedFaults, AControllerStartedAgainDoesNotFireAgain) {
  TimedFaults faults(timed_script(), {0, 1});
  EXPECT_THAT(indices(faults.due(10)), ElementsAre(3));
}

TEST(FaultTrigger, AJoinerIsWhoComesWithoutALoss) {
  const FaultScript script = script_of("[[fault]]\nkind = 'kill_joiner'\nstage = 0\nlane = 1");
  EXPECT_THAT(Worker(script).pass("recovery/plan", 0), IsEmpty()) << "it began with the job";
  Worker successor(script, kHere, kNode, {}, /*is_newcomer=*/true);
  EXPECT_THAT(successor.pass("recovery/plan", 7, /*recovery=*/2), IsEmpty());
  EXPECT_THAT(successor.pass("recovery/plan", 9), ElementsAre(0));
}

}  // namespace
}  // namespace evermoe
