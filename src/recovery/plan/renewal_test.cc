// When stages begin anew where they are, and who goes back with whom because of it.
#include "recovery/plan/renewal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recovery/plan/plan_scenario_testing.h"

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(RenewalTest, AStageWhoseLostRolesAreHeldWholeBeginsAnewWhereItIs) {
  const Plan plan = Scenario()
                        .lost(2)
                        .all_at_the_newest_state()
                        .holds_whole(0, 2, 20)
                        .holds_whole(5, 2, 20)
                        .plan();
  EXPECT_TRUE(plan.renews);
  EXPECT_FALSE(plan.restart_all);
  EXPECT_THAT(plan.rolled_back, ElementsAre(1));
  EXPECT_EQ(plan.stage_epochs[1], View(2));
  EXPECT_THAT(plan.sources[2], ElementsAre(Rank(0), Rank(5)));
  EXPECT_THAT(plan.sources[3], IsEmpty()) << "it has its state";
  EXPECT_THAT(story(plan), HasSubstr("stage 1 begins anew: role 1.0 is played by a new process"));
  EXPECT_THAT(story(plan), HasSubstr("role 1.0 takes the state of step 20 from 0.0, then 2.1"));
}

TEST(RenewalTest, NobodyGoesBackWhereAllHadToLeaveTheirStepsAndHaveTheirStates) {
  const Plan plan = Scenario().is_broken(2).is_broken(3).all_at_the_newest_state().plan();
  EXPECT_TRUE(plan.renews);
  EXPECT_THAT(plan.rolled_back, ElementsAre(1));
}

TEST(RenewalTest, AnOlderWholeStateIsNone) {
  const Plan plan = Scenario().lost(2).all_at_the_newest_state().holds_whole(0, 2, 19).plan();
  EXPECT_FALSE(plan.renews);
  EXPECT_THAT(plan.sources[2], ElementsAre(Rank(3))) << "its window";
}

TEST(RenewalTest, ASurvivorThatIsNotThereYetSendsItsStageBack) {
  const Plan plan =
      Scenario().lost(2).all_at_the_newest_state().at_state(3, 19).holds_whole(0, 2, 20).plan();
  EXPECT_FALSE(plan.renews);
  EXPECT_THAT(plan.rolled_back, ElementsAre(1));
}

TEST(RenewalTest, EitherAllStagesThatBeginAnewGoBackOrNone) {
  const Plan plan =
      Scenario().lost(2).lost(4).all_at_the_newest_state().holds_whole(0, 2, 20).plan();
  EXPECT_FALSE(plan.renews);
  EXPECT_THAT(plan.rolled_back, ElementsAre(1, 2));
}

TEST(RenewalTest, WhereEverybodyGoesBackTogetherEverybodyBeginsAnewTogether) {
  const Plan plan = Scenario()
                        .under(StrategyKind::kPeerMemory)
                        .lost(2)
                        .all_at_the_newest_state()
                        .holds_whole(0, 2, 20)
                        .plan();
  EXPECT_TRUE(plan.renews);
  EXPECT_THAT(plan.rolled_back, ElementsAre(0, 1, 2));
  const Plan behind = Scenario()
                          .under(StrategyKind::kPeerMemory)
                          .lost(2)
                          .all_at_the_newest_state()
                          .at_state(5, 19)
                          .holds_whole(0, 2, 20)
                          .plan();
  EXPECT_FALSE(behind.renews);
}

TEST(RenewalTest, ANeighbourThatCatchesUpNeedsWhatTheLostProcessHadSent) {
  const auto lost = [](int who_catches_up) {
    return Scenario()
        .lost(2)
        .all_at_the_newest_state()
        .catches_up(who_catches_up)
        .holds_whole(0, 2, 20)
        .plan();
  };
  for (const int neighbour : {0, 4}) {
    EXPECT_FALSE(lost(neighbour).renews);
    EXPECT_THAT(lost(neighbour).rolled_back, ElementsAre(1)) << "and feeds the other";
  }
  const Plan far =
      Scenario().lost(0).all_at_the_newest_state().catches_up(4).holds_whole(2, 0, 20).plan();
  EXPECT_TRUE(far.renews) << "not adjacent";
}

// By an earlier plan; its window would be of no use to it.
TEST(RenewalTest, WhoStillTakesItsStateGoesOnWithWhoHasIt) {
  const Plan plan =
      Scenario().is_broken(4).all_at_the_newest_state().awaits(2, 20).holds_whole(0, 2, 20).plan();
  EXPECT_THAT(plan.rolled_back, ElementsAre(2));
  EXPECT_THAT(plan.sources[2], ElementsAre(Rank(0)));
  EXPECT_THAT(story(plan), HasSubstr("role 1.0 takes the state of step 20 from 0.0"));
}

TEST(RenewalTest, WhoTakesAStateThatIsLostMeanwhileBeginsAnew) {
  const Plan plan = Scenario().lost(4).all_at_the_newest_state().awaits(2, 20).plan();
  EXPECT_FALSE(plan.renews);
  EXPECT_THAT(plan.rolled_back, ElementsAre(1, 2));
  EXPECT_THAT(plan.sources[2], ElementsAre(Rank(2), Rank(3))) << "its window";
  EXPECT_THAT(story(plan), HasSubstr("role 1.0 was taking the state of step 20, which nobody"));
}

TEST(RenewalTest, WhoeverIsSentBackForAReasonGoesBack) {
  const Plan plan = Scenario()
                        .lost(2)
                        .all_at_the_newest_state()
                        .holds_whole(0, 2, 20)
                        .all_go_back("nothing moves")
                        .plan();
  EXPECT_FALSE(plan.renews);
  EXPECT_THAT(plan.rolled_back, ElementsAre(0, 1, 2));
}

TEST(RenewalTest, InAChangeOfLanesNobodyKnowsWhoHasMoved) {
  const Plan plan = Scenario()
                        .lost(2)
                        .rest_since(20, {Rank(5)})
                        .all_at_the_newest_state()
                        .holds_whole(0, 2, 20)
                        .plan();
  EXPECT_FALSE(plan.renews);
}

// What its predecessor had sent is gone: whoever needs that has to wait until it is sent again.
TEST(RenewalTest, ANeighbourWhoseLogBeginsTooLateGoesBackToo) {
  const Plan plan = Scenario().lost(0).logs_since(3, 18).plan();
  EXPECT_THAT(plan.rolled_back, ElementsAre(0, 1));
  EXPECT_THAT(story(plan), HasSubstr("stage 1 goes back, too"));
  const Plan far = Scenario().lost(0).logs_since(5, 18).plan();
  EXPECT_THAT(far.rolled_back, ElementsAre(0)) << "not adjacent";
  const Plan chain = Scenario().lost(0).logs_since(3, 18).logs_since(5, 18).plan();
  EXPECT_THAT(chain.rolled_back, ElementsAre(0, 1, 2));
  const Plan old = Scenario().lost(0).logs_since(3, 16).plan();
  EXPECT_THAT(old.rolled_back, ElementsAre(0)) << "it reaches back to the window";
}

}  // namespace
}  // namespace evermoe
