// What agents ask each other for, as the agent of node 1 decides it.
#include "control/agent/plan_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/agent/agent_core_testing.h"

namespace evermoe {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Of a view in which four ranks are where `where` says.
Plan plan_of(uint32_t view, const std::string& where = "here") {
  Plan plan;
  plan.view = View(view);
  for (int r = 0; r < 4; ++r) plan.table.push_back({absl::StrCat(where, r), View(1)});
  plan.holders = {{Rank(1)}, {Rank(0)}, {Rank(3)}, {Rank(2)}};
  plan.sources.resize(4);
  return plan;
}

FetchPlan fetch_of(const Plan& plan) {
  FetchPlan fetch{name_of(plan), "other:1", absl::Seconds(2), update_of(&plan, plan)};
  fetch.rest.to = {{5, Rank(0), View(1)}};
  return fetch;
}

PlanUpdate whole(const Plan& plan) { return update_of(nullptr, plan); }

// It plays rank 0.
TestAgent agent_with_worker() {
  TestAgent agent = ready_agent();
  agent.runs(5, 0).did();
  return agent;
}

TEST(PlanExchange, AnAgentGetsAPlanFromAnotherOne) {
  TestAgent agent = agent_with_worker();
  const Plan plan = plan_of(2);
  EXPECT_EQ(agent.from_controller(fetch_of(plan)).did(), "ask other:1");
  EXPECT_EQ(agent.other_agent_tells(whole(plan)).did(), "stop asking, order to 5, holds plan");
}

TEST(PlanExchange, WhatTheControllerSaysOfAPlanCountsNotWhatTheOtherAgentSays) {
  TestAgent agent = agent_with_worker();
  Plan ours = plan_of(2), theirs = plan_of(2);
  ours.window = Step(8);
  theirs.window = Step(4);
  agent.from_controller(fetch_of(ours)).other_agent_tells(whole(theirs)).did();
  ASSERT_TRUE(agent.plan());
  EXPECT_EQ(agent.plan()->window, Step(8));
}

TEST(PlanExchange, ItAsksTheControllerWhenTheOtherAgentIsGoneLateOrTellsSomethingElse) {
  const Plan plan = plan_of(2);
  {
    TestAgent agent = agent_with_worker();
    agent.from_controller(fetch_of(plan)).did();
    EXPECT_EQ(agent.other_agent_goes().did(), "stop asking (it has gone), wants plan");
    EXPECT_EQ(agent.other_agent_goes().did(), "") << "once";
    EXPECT_EQ(agent.from_controller(whole(plan)).did(), "stop asking, order to 5, holds plan");
  }
  {
    TestAgent agent = agent_with_worker();
    agent.from_controller(fetch_of(plan)).did();
    EXPECT_EQ(agent.from_controller(Beat{}).wait(1.5).did(), "");
    EXPECT_EQ(agent.from_controller(Beat{}).wait(0.6).did(),
              "stop asking (no answer within 2s), wants plan");
  }
  for (const Plan& other : {plan_of(2, "there"), plan_of(1), plan_of(3)}) {
    TestAgent agent = agent_with_worker();
    agent.from_controller(fetch_of(plan)).did();
    EXPECT_EQ(agent.other_agent_tells(whole(other)).did(),
              "stop asking (it told something else), wants plan");
  }
  {
    TestAgent agent = agent_with_worker();
    agent.from_controller(fetch_of(plan)).did();
    EXPECT_THAT(agent.other_agent_tells(Beat{}).did(), StartsWith("stop asking (it told"));
  }
}

TEST(PlanExchange, AfterANewerStopNobodyNeedsTheOlderPlan) {
  TestAgent agent = agent_with_worker();
  const Plan old = plan_of(1);
  agent.from_controller(fetch_of(old)).did();
  EXPECT_EQ(agent.order(5, 0).did(), "stop asking, order to 5");
  EXPECT_EQ(agent.other_agent_tells(whole(old)).did(), "") << "its workers stopped for view 2";
  EXPECT_EQ(agent.from_controller(fetch_of(plan_of(2))).did(), "ask other:1");
  EXPECT_EQ(agent.order(5, 0).did(), "order to 5") << "of the view that it is fetched for";
}

TEST(PlanExchange, APlanThatTheControllerTellsEndsTheAsking) {
  TestAgent agent = agent_with_worker();
  agent.from_controller(fetch_of(plan_of(2))).did();
  PlanUpdate next = whole(plan_of(3));
  next.to = {{5, Rank(0), View(1)}};
  EXPECT_EQ(agent.from_controller(next).did(), "stop asking, order to 5");
}

TEST(PlanExchange, WhoLosesTheControllerStopsAsking) {
  TestAgent agent = agent_with_worker();
  agent.from_controller(fetch_of(plan_of(2))).did();
  EXPECT_EQ(agent.broken().did(), "stop asking");
}

TEST(PlanExchange, WhatItHasItDoesNotAskFor) {
  TestAgent agent = agent_with_worker();
  const Plan plan = plan_of(2);
  agent.from_controller(whole(plan)).did();
  EXPECT_EQ(agent.from_controller(fetch_of(plan)).did(), "stop asking, order to 5, holds plan");
}

// ---- asked by others

TEST(PlanExchange, WhoAsksForWhatIsHereIsToldAtOnce) {
  TestAgent agent = ready_agent();
  agent.from_controller(whole(plan_of(2))).did();
  EXPECT_EQ(agent.asked_for(1, name_of(plan_of(2))).did(), "tell asker 1");
}

TEST(PlanExchange, WhoAsksForWhatIsOnItsWayWaits) {
  TestAgent agent = ready_agent();
  const PlanName wanted = name_of(plan_of(2));
  agent.from_controller(whole(plan_of(1))).did();
  EXPECT_EQ(agent.asked_for(1, wanted).asked_for(2, wanted).asked_for(3, wanted).did(), "");
  agent.asker_goes(2);
  EXPECT_EQ(agent.from_controller(whole(plan_of(2))).did(), "tell asker 1 and 3");
  EXPECT_EQ(agent.from_controller(whole(plan_of(3))).did(), "") << "they have been told";
}

TEST(PlanExchange, AFetchedPlanGoesOnToWhoHasAskedForIt) {
  TestAgent agent = ready_agent();
  const Plan plan = plan_of(2);
  agent.asked_for(1, name_of(plan)).from_controller(fetch_of(plan)).did();
  EXPECT_EQ(agent.other_agent_tells(whole(plan)).did(), "stop asking, tell asker 1, holds plan");
}

TEST(PlanExchange, WhoAsksForWhatWillNeverBeHereIsCutOff) {
  TestAgent agent = ready_agent();
  agent.from_controller(whole(plan_of(2))).did();
  EXPECT_EQ(agent.asked_for(1, name_of(plan_of(1))).did(), "cut asker 1");
  EXPECT_EQ(agent.asked_for(2, name_of(plan_of(2, "there"))).did(), "cut asker 2");
  agent.asked_for(3, name_of(plan_of(3))).did();
  EXPECT_EQ(agent.from_controller(whole(plan_of(4))).did(), "cut asker 3");
}

TEST(PlanExchange, TooManyAndThoseWhoStayAreCutOff) {
  TestAgent agent = ready_agent();
  agent.from_controller(whole(plan_of(2))).did();
  for (int n = 1; n <= static_cast<int>(PlanExchange::kAskersMax); ++n)
    agent.asked_for(n, name_of(plan_of(n % 2 == 0 ? 2 : 3)));
  agent.did();
  EXPECT_EQ(agent.asked_for(100, name_of(plan_of(2))).did(), "cut asker 100");
  for (double waited = 0; waited < 31; ++waited) agent.from_controller(Beat{}).wait(1);
  EXPECT_THAT(agent.did(), HasSubstr("cut asker 1, cut asker 2, "));
  EXPECT_EQ(agent.asked_for(100, name_of(plan_of(2))).did(), "tell asker 100");
}

TEST(PlanExchange, WhoAsksForNoPlanIsCutOffAlsoWhereThereIsNone) {
  TestAgent agent = ready_agent();
  EXPECT_EQ(agent.asked_for(1, PlanName{}).did(), "cut asker 1");
}

TEST(PlanExchange, WhoAsksTwiceOnALineOrSaysSomethingElseIsCutOff) {
  TestAgent agent = ready_agent();
  agent.from_controller(whole(plan_of(2))).asked_for(1, name_of(plan_of(2))).did();
  EXPECT_EQ(agent.asked_for(1, name_of(plan_of(2))).did(), "cut asker 1");
  EXPECT_EQ(agent.asker_says(2, EndJob{}).did(), "cut asker 2");
}

}  // namespace
}  // namespace evermoe
