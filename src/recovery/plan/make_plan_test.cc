// Scenarios of failures: who reports what, and what the plan says.
#include "recovery/plan/make_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recovery/plan/plan_scenario_testing.h"

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(MakePlanTest, OneLostRankSendsItsStageBackAndNobodyElse) {
  const Plan plan = Scenario().lost(2).plan();
  EXPECT_FALSE(plan.restart_all);
  EXPECT_THAT(plan.rolled_back, ElementsAre(1));
  EXPECT_EQ(plan.window, Step(16));
  EXPECT_EQ(plan.newest, verdict_commit(Step(20)));
  EXPECT_THAT(plan.sources[2], ElementsAre(Rank(3)));
  EXPECT_THAT(plan.sources[3], ElementsAre(Rank(3), Rank(4))) << "its own memory first";
  EXPECT_THAT(plan.sources[0], IsEmpty());
  EXPECT_THAT(story(plan), HasSubstr("role 1.0 takes window 16 from 1.1"));
}

TEST(MakePlanTest, WithCopiesForAllOneLostRankSendsEverybodyBackInMemory) {
  const Plan plan = Scenario().under(StrategyKind::kPeerMemory).lost(2).plan();
  EXPECT_FALSE(plan.restart_all);
  EXPECT_THAT(plan.rolled_back, ElementsAre(0, 1, 2));
  EXPECT_EQ(plan.window, Step(16));
  EXPECT_THAT(plan.sources[2], ElementsAre(Rank(3)));
  EXPECT_THAT(plan.sources[0], ElementsAre(Rank(0), Rank(1))) << "its own memory first";
  EXPECT_THAT(story(plan), HasSubstr("all stages go back: protection.strategy = peer-memory"));
}

TEST(MakePlanTest, WithCopiesForAllNobodyGoesBackWithoutALoss) {
  EXPECT_THAT(Scenario().under(StrategyKind::kPeerMemory).plan().rolled_back, IsEmpty());
}

// Stage 0 went back in a view whose plan the others never had.
TEST(MakePlanTest, WithCopiesForAllStagesThatBeganInDifferentViewsGoBackTogether) {
  const auto apart = [](StrategyKind kind) {
    return Scenario().under(kind).joined_in(0, 2).joined_in(1, 2).plan();
  };
  const Plan plan = apart(StrategyKind::kPeerMemory);
  EXPECT_FALSE(plan.restart_all);
  EXPECT_THAT(plan.rolled_back, ElementsAre(0, 1, 2));
  EXPECT_THAT(story(plan), HasSubstr("roles began in different views"));
  EXPECT_THAT(apart(StrategyKind::kDense).rolled_back, IsEmpty()) << "their logs reach back";
}

TEST(MakePlanTest, TheVerdictOfOneIsEverybodys) {
  const Plan plan = Scenario().lost(2).has_verdict(5, 21).plan();
  EXPECT_EQ(plan.newest, verdict_commit(Step(21)));
  EXPECT_EQ(plan.record_source, Rank(5));
}

TEST(MakePlanTest, DisjointAndAdjacentStages) {
  EXPECT_THAT(Scenario().lost(0).lost(4).plan().rolled_back, ElementsAre(0, 2));
  EXPECT_THAT(segments_of({2, 0}), ElementsAre(ElementsAre(0), ElementsAre(2)));
  EXPECT_THAT(segments_of({1, 2, 0, 5}), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(5)));
}

TEST(MakePlanTest, AStageThatCatchesUpGoesOnWhenAnotherFails) {
  const Plan plan = Scenario().joined_in(0, 2).joined_in(1, 2).lost(4).plan();
  EXPECT_THAT(plan.rolled_back, ElementsAre(2));
}

TEST(MakePlanTest, ABrokenStepOrAHalfJoinedStageGoesBack) {
  EXPECT_THAT(Scenario().is_broken(3).plan().rolled_back, ElementsAre(1));
  EXPECT_THAT(Scenario().joined_in(3, 2).plan().rolled_back, ElementsAre(1));
}

TEST(MakePlanTest, NothingLostNothingGoesBack) {
  EXPECT_THAT(Scenario().plan().rolled_back, IsEmpty());
}

TEST(MakePlanTest, BeforeTheFirstWindowTheSourceIsWhereTheJobBegan) {
  const Plan plan = Scenario().no_window().lost(2).plan();
  EXPECT_FALSE(plan.restart_all);
  EXPECT_EQ(plan.window, Step(-1));
  EXPECT_EQ(plan.base, Step(0));
}

TEST(MakePlanTest, WhereOwnerAndHolderAreLostAllGoBack) {
  const Plan plan = Scenario().lost(1).lost(2).plan();
  EXPECT_TRUE(plan.restart_all);
  EXPECT_THAT(story(plan),
              HasSubstr("nobody alive holds window 16 of role 0.1; its copies were at 1.0"));
  EXPECT_EQ(plan.newest, Commit(-1));
}

TEST(MakePlanTest, AFailureWhileResumingResumesAgain) {
  EXPECT_TRUE(Scenario().resuming(0).lost(4).plan().restart_all);
}

TEST(MakePlanTest, WithoutProtectionAllGoBack) {
  EXPECT_TRUE(Scenario().unprotected().lost(2).plan().restart_all);
}

TEST(MakePlanTest, WithGradientsTheLostRankTakesThemAndTheOthersKeepTheirState) {
  const Plan plan = Scenario().under(StrategyKind::kGradients).lost(2).plan();
  EXPECT_FALSE(plan.restart_all);
  EXPECT_THAT(plan.rolled_back, ElementsAre(1));
  EXPECT_EQ(plan.window, Step(16));
  EXPECT_EQ(plan.state, Step(20));
  EXPECT_THAT(plan.sources[2], ElementsAre(Rank(3)));
  EXPECT_THAT(plan.sources[3], ElementsAre(Rank(3), Rank(4)))
      << "it has its state; should the gradients that it still needs be damaged, there is a copy";
  EXPECT_THAT(plan.sources[0], IsEmpty()) << "its stage does not begin anew";
}

TEST(MakePlanTest, WhoKeepsItsStateNeedsNoCopies) {
  const auto under = [] { return Scenario().under(StrategyKind::kGradients).lost(2); };
  const Plan plan = under().holds_gradients(4, 0).plan();
  EXPECT_FALSE(plan.restart_all);
  EXPECT_THAT(plan.sources[3], ElementsAre(Rank(3)));
  EXPECT_FALSE(under().holds_gradients(3, 4).lost(4).plan().sources[3].empty());
}

TEST(MakePlanTest, GradientsWithAGapAreNoSource) {
  const auto under = [] { return Scenario().under(StrategyKind::kGradients).lost(2); };
  const Plan plan = under().holds_gradients(3, 3).plan();
  EXPECT_TRUE(plan.restart_all);
  EXPECT_THAT(story(plan),
              HasSubstr("nobody alive holds window 16 and the gradients since of role 1.0"));
  EXPECT_FALSE(under().holds_gradients(3, 5).plan().restart_all) << "of the step under way, too";
}

TEST(MakePlanTest, ARankThatWasGatheringItsStateGoesOnByTheNewSources) {
  const Plan plan = Scenario()
                        .under(StrategyKind::kGradients)
                        .without_state(0)
                        .holds_gradients(0, 2)
                        .lost(4)
                        .plan();
  EXPECT_THAT(plan.rolled_back, ElementsAre(2));
  EXPECT_THAT(plan.sources[0], ElementsAre(Rank(1)));
}

TEST(MakePlanTest, WithGradientsTheFirstWindowIsASourceBeforeACommitNamesIt) {
  const auto under = [] { return Scenario().under(StrategyKind::kGradients).no_window_known(); };
  const Plan plan = under().lost(2).plan();
  EXPECT_FALSE(plan.restart_all);
  EXPECT_EQ(plan.window, Step(0)) << "neighbours keep no messages of the steps since the base";
  EXPECT_THAT(plan.sources[2], ElementsAre(Rank(3)));
  EXPECT_TRUE(under().lost(2).lost(3).plan().restart_all);
  const Plan first = under().at_the_base().lost(2).lost(3).plan();
  EXPECT_FALSE(first.restart_all);
  EXPECT_EQ(first.window, Step(-1)) << "no step has been made: the base is the state";
}

TEST(MakePlan, AllGoBackInMemoryWhereTheirWindowsAre) {
  const Plan plan = Scenario().all_go_back("nothing moves").plan();
  EXPECT_FALSE(plan.restart_all);
  EXPECT_THAT(plan.rolled_back, ElementsAre(0, 1, 2));
  EXPECT_EQ(plan.window, Step(16));
  EXPECT_THAT(plan.reasons, ElementsAre("all stages go back: nothing moves"));

  // With its copies' holder gone, too, a role has its window nowhere.
  const Plan lost = Scenario().lost(2).lost(3).all_go_back("nothing moves").plan();
  EXPECT_TRUE(lost.restart_all);
  EXPECT_THAT(lost.reasons.back(), HasSubstr("nobody alive holds window 16 of role 1.0"));

  const Plan unprotected = Scenario().unprotected().all_go_back("nothing moves").plan();
  EXPECT_TRUE(unprotected.restart_all);
  EXPECT_THAT(unprotected.reasons.back(), "nothing moves");
}

// ---- who rests

TEST(MakePlanTest, WhoIsToRestDoesSoFromTheNextStateOn) {
  const Plan plan = Scenario().lost(1).wants({Rank(1)}).plan();
  EXPECT_THAT(plan.rolled_back, ElementsAre(0)) << "its state is recovered first";
  ASSERT_EQ(plan.membership.size(), 1u);
  EXPECT_EQ(plan.membership[0].step, Step(21));
  EXPECT_THAT(plan.membership[0].resting, ElementsAre(Rank(1)));
  EXPECT_EQ(plan.membership[0].view, View(2));
  EXPECT_THAT(Scenario().wants({}).plan().membership, IsEmpty());
}

TEST(MakePlanTest, WhatNobodyHasComeToIsPlannedAnew) {
  const Plan plan = Scenario().rest_since(21, {Rank(1)}).wants({Rank(3)}).plan();
  ASSERT_EQ(plan.membership.size(), 1u);
  EXPECT_THAT(plan.membership[0].resting, ElementsAre(Rank(3)));
}

TEST(MakePlanTest, ANewProcessOfARoleThatRestsSendsNobodyBack) {
  const Plan plan =
      Scenario().joined_in(2, 5).joined_in(3, 5).lost(3).rest_since(10, {Rank(3)}).plan();
  EXPECT_THAT(plan.rolled_back, IsEmpty()) << story(plan);
  EXPECT_THAT(plan.rejoining, ElementsAre(Rank(3)));
  EXPECT_THAT(plan.stage_epochs, ElementsAre(View(1), View(5), View(1)));
  EXPECT_THAT(plan.sources[3], IsEmpty());
}

TEST(MakePlanTest, OneThatRestsSinceTheNewestStateMayHaveToGiveItsPartThere) {
  const Plan plan = Scenario().lost(3).rest_since(20, {Rank(3)}).plan();
  EXPECT_THAT(plan.rolled_back, ElementsAre(1));
  EXPECT_THAT(plan.sources[3], ElementsAre(Rank(4))) << "it trained at the window";
}

// Found by sim: seed 9468 of the sparse strategy.
TEST(MakePlanTest, WhatARoleThatRestsHasSentSinceTheWindowIsLostWithIt) {
  const auto rolled_back = [](StrategyKind strategy, int64_t rests_since) {
    Scenario scenario;
    return scenario.under(strategy).lost(0).lost(3).rest_since(rests_since, {Rank(3)}).plan();
  };
  const Plan plan = rolled_back(StrategyKind::kSparse, 18);
  EXPECT_THAT(plan.rolled_back, ElementsAre(0, 1)) << "stage 0 asks for steps 17 and 18 of it";
  EXPECT_THAT(plan.rejoining, IsEmpty());
  EXPECT_THAT(rolled_back(StrategyKind::kSparse, 16).rejoining, ElementsAre(Rank(3)));
  EXPECT_THAT(rolled_back(StrategyKind::kGradients, 18).rejoining, ElementsAre(Rank(3)))
      << "nobody runs a step again";
}

TEST(MakePlanTest, NobodyKeepsAStateOnLanesThatItsWindowWasNotOn) {
  const auto sources_of_survivor = [](int64_t changed) {
    Scenario scenario;
    scenario.under(StrategyKind::kGradients).lost(2).rest_since(changed, {Rank(5)});
    return scenario.plan().sources[3];
  };
  EXPECT_THAT(sources_of_survivor(16), ElementsAre(Rank(3), Rank(4)));
  const Plan crossing =
      Scenario().under(StrategyKind::kGradients).lost(2).rest_since(20, {Rank(5)}).plan();
  EXPECT_THAT(crossing.sources[3], ElementsAre(Rank(3), Rank(4))) << "its own memory first";
  EXPECT_FALSE(crossing.restart_all) << story(crossing);
}

TEST(MakePlanTest, NobodyKeepsAStateWhoseExpertsHaveMovedSinceTheWindow) {
  const auto all_go_back = [](int64_t moved) {
    Scenario scenario;
    scenario.under(StrategyKind::kGradients).lost(2).without_copies(3).experts_moved(3, moved);
    return scenario.plan().restart_all;
  };
  EXPECT_FALSE(all_go_back(-1)) << "it has its state";
  EXPECT_FALSE(all_go_back(16)) << "the window was captured after that";
  EXPECT_TRUE(all_go_back(17)) << "its state leads nowhere without its window";
  EXPECT_TRUE(all_go_back(20));
}

// Another host had the job meanwhile, and this one's processes have waited for its.
TEST(MakePlanTest, AStateFromBeforeTheWindowIsNone) {
  for (const StrategyKind strategy : {StrategyKind::kSparse, StrategyKind::kGradients}) {
    const auto with_3_at = [&](int64_t step) {
      return Scenario().under(strategy).at_state(3, step).plan();
    };
    EXPECT_THAT(with_3_at(16).rolled_back, IsEmpty());
    const Plan plan = with_3_at(15);
    EXPECT_THAT(plan.rolled_back, ElementsAre(1));
    EXPECT_THAT(plan.sources[3], ElementsAre(Rank(3), Rank(4)));
    EXPECT_THAT(story(plan), HasSubstr("role 1.1 is at step 15, from before all that is kept"));
    const Plan gone = Scenario().under(strategy).at_state(3, 15).without_copies(3).plan();
    EXPECT_TRUE(gone.restart_all);
  }
}

TEST(MakePlanTest, WhoRestedAtTheWindowNeedsNothingOfIt) {
  const Plan plan = Scenario().lost(2).rest_since(10, {Rank(3)}).plan();
  EXPECT_THAT(plan.rolled_back, ElementsAre(1));
  EXPECT_THAT(plan.sources[3], IsEmpty());
}

TEST(MakePlanTest, WhatIsForgottenOfTheHistoryIsWhatNobodyGoesBackTo) {
  const Plan plan = Scenario().rest_since(4, {Rank(1)}).rest_since(9, {Rank(3)}).plan();
  ASSERT_EQ(plan.membership.size(), 1u);
  EXPECT_EQ(plan.membership[0].step, Step(9));
}

TEST(MakePlanTest, WhoGoesBackToACheckpointTrainsOnTheLanesThatAreWanted) {
  const Plan plan = Scenario().unprotected().lost(2).wants({Rank(3)}).plan();
  ASSERT_TRUE(plan.restart_all);
  ASSERT_EQ(plan.membership.size(), 1u);
  EXPECT_EQ(plan.membership[0].step, Step(0));
  EXPECT_THAT(plan.membership[0].resting, ElementsAre(Rank(3)));
}

TEST(MakePlanTest, WhoStaysNeedsNoWindow) {
  const Plan plan = Scenario().lost(0).without_copies(5).plan();
  EXPECT_FALSE(plan.restart_all);
  EXPECT_THAT(plan.sources[5], IsEmpty());
}

}  // namespace
}  // namespace evermoe
