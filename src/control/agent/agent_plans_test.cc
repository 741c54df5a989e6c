#include "control/agent/agent_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

// Of a node whose worker 5 plays rank 0.
class AgentPlansTest : public testing::Test {
 protected:
  AgentPlansTest() {
    workers.start(5, StartWorker{Node(1), Rank(0), View(1)}, {});
    workers.find(5)->pid = 5;
    workers.attach(StreamNumber(5), 5);
  }
  static Plan of_view(uint32_t view) {
    Plan plan;
    plan.view = View(view);
    return plan;
  }
  static PlanUpdate whole(uint32_t view) {
    PlanUpdate update = update_of(nullptr, of_view(view));
    update.to = {{5, Rank(0), View(1)}};
    return update;
  }
  static FetchPlan fetch(uint32_t view) {
    const Plan plan = of_view(view);
    return {name_of(plan), "other:1", absl::Seconds(2), update_of(&plan, plan)};
  }

  AgentWorkers workers;
  AgentPlans plans;
};

TEST_F(AgentPlansTest, APlanIsHandedOnToTheWorkersItIsFor) {
  EXPECT_EQ(plans.name(), PlanName{});
  EXPECT_THAT(plans.on_wanted(), IsEmpty());
  const std::optional<AgentActions> actions = plans.on_update(whole(1), workers);
  ASSERT_TRUE(actions && actions->size() == 1);
  EXPECT_EQ(std::get<ToWorker>((*actions)[0]).to, StreamNumber(5));
  EXPECT_EQ(plans.name(), name_of(of_view(1)));
  EXPECT_THAT(plans.on_wanted(), SizeIs(1));
}

TEST_F(AgentPlansTest, ChangesThatDoNotFitMakeItForgetWhatItHas) {
  plans.on_update(whole(1), workers);
  const Plan other = of_view(3);
  EXPECT_FALSE(plans.on_update(update_of(&other, of_view(4)), workers).has_value());
  EXPECT_EQ(plans.name(), PlanName{});
}

TEST_F(AgentPlansTest, WhatItHasItDoesNotAskFor) {
  const AgentActions asks = plans.on_fetch(absl::ZeroDuration(), fetch(1), workers);
  ASSERT_THAT(asks, SizeIs(1));
  EXPECT_TRUE(std::holds_alternative<AskForPlan>(asks[0]));
  plans.on_answer({0, update_of(nullptr, of_view(1))}, workers);
  EXPECT_EQ(plans.name(), name_of(of_view(1)));
  const AgentActions has = plans.on_fetch(absl::ZeroDuration(), fetch(1), workers);
  ASSERT_THAT(has, SizeIs(2));
  EXPECT_TRUE(std::holds_alternative<StopAsking>(has[0]));
  EXPECT_TRUE(std::holds_alternative<PlanHeld>(std::get<ToController>(has[1]).envelope.message));
}

TEST_F(AgentPlansTest, WhoAsksTooEarlyIsToldWhenItComes) {
  EXPECT_THAT(plans.on_asked(absl::ZeroDuration(), StreamNumber(8), name_of(of_view(1))),
              IsEmpty());
  const std::optional<AgentActions> actions = plans.on_update(whole(1), workers);
  ASSERT_TRUE(actions && actions->size() == 2);
  EXPECT_THAT(std::get<ToAskers>((*actions)[1]).to, testing::ElementsAre(StreamNumber(8)));
}

}  // namespace
}  // namespace evermoe
