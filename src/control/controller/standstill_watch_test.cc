#include "control/controller/standstill_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/controller/losses/suspicion.h"

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

absl::Duration seconds(double count) { return absl::Seconds(count); }

class Standstill : public testing::Test {
 protected:
  Standstill() {
    options_.step_max = seconds(60);
    options_.medians_max = 20;
    options_.load_max = seconds(600);
    options_.probe_min = seconds(5);
    options_.patience = 10;
    options_.steps = Step(100);
    options_.evaluate_every_steps = 25;
  }
  // Steps of ten seconds each.
  void commits(int64_t first, int64_t last) {
    for (int64_t step = first; step <= last; ++step) {
      newest_ = verdict_commit(Step(step));
      watch_.on_commit(now_ += seconds(10));
    }
  }
  absl::Duration left(bool is_loading = false) const {
    return watch_.deadline(newest_, is_loading) - now_;
  }

  ControllerOptions options_;
  StandstillWatch watch_{options_};
  absl::Duration now_ = seconds(1000);
  Commit newest_{-1};
};

TEST_F(Standstill, AStepMayTakeManyMediansOrTheConfiguredTime) {
  watch_.begin(now_);
  EXPECT_EQ(left(), seconds(600)) << "nobody knows how long the first one takes";
  commits(1, 9);
  EXPECT_EQ(left(), seconds(200));
}

TEST_F(Standstill, WhatIsNoStepMayTakeLonger) {
  commits(1, 25);
  EXPECT_EQ(left(), seconds(2000)) << "an evaluation";
  commits(26, 26);
  EXPECT_EQ(left(), seconds(200));
  commits(27, 100);
  EXPECT_EQ(left(), seconds(2000)) << "the end";
}

TEST_F(Standstill, LoadingHasALimitOfItsOwn) {
  commits(1, 9);
  EXPECT_EQ(left(/*is_loading=*/true), seconds(600));
}

TEST_F(Standstill, TimeBetweenAMilestoneAndACommitIsNoStep) {
  commits(1, 9);
  watch_.on_milestone(now_ += seconds(500));
  commits(10, 10);
  EXPECT_EQ(watch_.median_step(), seconds(10));
}

TEST_F(Standstill, AProbeIsOneViewLong) {
  commits(1, 9);
  watch_.probe();
  watch_.on_stop();
  EXPECT_FALSE(watch_.is_probe()) << "not before its plan is out";
  watch_.on_plan(now_);
  EXPECT_TRUE(watch_.is_probe());
  EXPECT_EQ(left(), seconds(10)) << "a median step, which is longer than probe_min";
  watch_.on_stop();
  watch_.on_plan(now_);
  EXPECT_FALSE(watch_.is_probe());
}

TEST_F(Standstill, WhereAllMoveTheyMayBeSlow) {
  options_.step_max = seconds(300);
  commits(1, 9);
  EXPECT_EQ(left(), seconds(300));
  watch_.on_all_moved();
  EXPECT_EQ(left(), seconds(600));
  watch_.on_all_moved();
  EXPECT_EQ(left(), seconds(1200));
  now_ += seconds(800);
  commits(10, 10);
  EXPECT_EQ(left(), seconds(1620)) << "twice the step that was so slow";
  for (int i = 0; i < 100; ++i) watch_.on_all_moved();
  EXPECT_EQ(left(), seconds(1620 * 64));
  commits(11, 11);
  EXPECT_EQ(left(), seconds(300));
}

TEST_F(Standstill, WhereNobodyIsSeenAProbeBeginsAnew) {
  commits(1, 9);
  watch_.probe();
  watch_.on_plan(now_);
  now_ += seconds(10);
  ASSERT_EQ(left(), seconds(0));
  watch_.on_nobody_in_sight(now_);
  EXPECT_TRUE(watch_.is_probe());
  EXPECT_EQ(left(), seconds(10)) << "or who waits for the deadline looks again at once, and again";
}

TEST_F(Standstill, ACommitEndsTheProbe) {
  watch_.probe();
  watch_.on_plan(now_);
  commits(1, 1);
  EXPECT_FALSE(watch_.is_probe());
}

TEST_F(Standstill, InsideAStageThatStandsStillNobodyCanBeTold) {
  const Topology topology({2, 2}, 2);
  RoleTable roles(4);
  for (int32_t r = 0; r < 4; ++r) roles[Rank(r)].entered = View(7);
  EXPECT_THAT(who_stands_still(topology, roles, View(7)), IsEmpty());
  roles[Rank(1)].entered = View(6);
  EXPECT_THAT(who_stands_still(topology, roles, View(7)), ElementsAre(Rank(1)));
  roles[Rank(2)].entered = roles[Rank(3)].entered = View(6);
  EXPECT_THAT(who_stands_still(topology, roles, View(7)), ElementsAre(Rank(2), Rank(3)))
      << "a whole stage does";
  roles[Rank(2)].finished = true;
  EXPECT_THAT(who_stands_still(topology, roles, View(7)), ElementsAre(Rank(1), Rank(3)));
}

TEST_F(Standstill, WhoDoesNotWaitForTheOthersOfItsStageIsToldFromThem) {
  const Topology topology({64, 2}, 2);
  RoleTable roles(66);
  for (int32_t r = 64; r < 66; ++r) roles[Rank(r)].entered = View(7);
  for (int32_t r = 0; r < 64; ++r) roles[Rank(r)].waits = r != 37;
  EXPECT_THAT(who_stands_still(topology, roles, View(7)), ElementsAre(Rank(37)));
  roles[Rank(5)].entered = View(7);
  EXPECT_THAT(who_stands_still(topology, roles, View(7)), ElementsAre(Rank(37)))
      << "also where one of the others waits for another stage";
  roles[Rank(5)].entered = View(6);
  roles[Rank(40)].waits = false;
  EXPECT_THAT(who_stands_still(topology, roles, View(7)), ElementsAre(Rank(37), Rank(40)));
  roles[Rank(37)].waits = roles[Rank(40)].waits = true;
  EXPECT_EQ(who_stands_still(topology, roles, View(7)).size(), 64u)
      << "a message is lost, say: nobody can be told";
}

TEST(Suspicion, AccusationsAreFollowedToTheirEnd) {
  Suspicion suspicion(seconds(1), "0 waits for 1");
  suspicion.complain(Rank(0), Rank(1));
  suspicion.complain(Rank(1), Rank(3));
  EXPECT_EQ(suspicion.accused(), Rank(3));
  suspicion.complain(Rank(3), Rank(0));
  EXPECT_EQ(suspicion.accused(), Rank(1)) << "in a circle the first one";
}

TEST(Suspicion, WhoBlamesNobodyIsNotToBlame) {
  Suspicion suspicion(seconds(1), "the disk is slow");
  suspicion.complain(Rank(0), std::nullopt);
  EXPECT_EQ(suspicion.accused(), std::nullopt);
  suspicion.complain(Rank(1), Rank(0));
  EXPECT_EQ(suspicion.accused(), Rank(0)) << "if somebody else does not blame it";
}

}  // namespace
}  // namespace evermoe
