#include "control/controller/plans/plan_sender.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using testing::ElementsAre;

// Two nodes with one role each. Either may serve the other.
class PlanSenderTest : public testing::Test {
 protected:
  PlanSenderTest() {
    for (const int n : {0, 1}) {
      RelayPeers::Stream& peer = peers.meet(StreamNumber(n + 1));
      peer.second.node = Node(n);
      peer.second.lines = "node:1";
      peers.set_agent(peer);
      processes.begin({Node(n), Rank(n), View(1)}, absl::ZeroDuration());
    }
  }
  static Plan plan_of(uint32_t view) {
    Plan plan;
    plan.view = View(view);
    return plan;
  }
  static std::string word_of(const SendEnvelope& sent) {
    if (std::holds_alternative<FetchPlan>(sent.envelope.message)) return "fetch";
    const auto& update = std::get<PlanUpdate>(sent.envelope.message);
    return update.base == View(0) ? "whole" : "changes";
  }
  std::vector<std::string> sends(uint32_t view) {
    std::vector<std::string> words;
    for (const SendEnvelope& sent : plans.send(plan_of(view), processes, peers))
      words.push_back(word_of(sent));
    return words;
  }
  RelayPeer& agent(int node) { return peers.agent(Node(node))->second; }

  RelayPeers peers;
  RoleProcesses processes{2, 0};
  PlanSender plans{{.branches = 1, .patience = absl::Seconds(2), .patience_more = {}}};
};

TEST_F(PlanSenderTest, WhoHasTheFormerPlanIsSentChanges) {
  EXPECT_THAT(sends(1), ElementsAre("whole", "fetch"));
  plans.hear(agent(1), PlanHeld{name_of(plan_of(1))});
  EXPECT_THAT(sends(2), ElementsAre("changes", "changes"));
}

TEST_F(PlanSenderTest, ALineThatIsBrokenServesNobody) {
  agent(0).broke = absl::Seconds(1);
  EXPECT_THAT(sends(1), ElementsAre("whole", "whole"));
}

TEST_F(PlanSenderTest, WhoHasNoAgentIsSentNothing) {
  peers.forget(StreamNumber(1));
  EXPECT_THAT(sends(1), ElementsAre("whole"));
}

TEST_F(PlanSenderTest, TheNewestPlanOfAFormerControllerIsWanted) {
  EXPECT_FALSE(plans.wants({}));
  EXPECT_TRUE(plans.wants(name_of(plan_of(3))));
  EXPECT_FALSE(plans.wants(name_of(plan_of(3)))) << "it has been asked for";
  EXPECT_TRUE(plans.wants(name_of(plan_of(4))));
  for (const uint32_t view : {3, 4})
    EXPECT_FALSE(plans.hear(agent(0), update_of(nullptr, plan_of(view))).is_nonsense);
  EXPECT_FALSE(plans.wants(name_of(plan_of(5)))) << "the next one is ours";
  agent(0).plan = name_of(plan_of(4));
  EXPECT_THAT(sends(6), ElementsAre("changes", "whole"));
}

TEST_F(PlanSenderTest, OnlyTheNewestPlanIsToldAgain) {
  EXPECT_FALSE(plans.hear(agent(0), PlanWanted{name_of(plan_of(1))}).whole.has_value());
  sends(1);
  sends(2);
  EXPECT_FALSE(plans.hear(agent(0), PlanWanted{name_of(plan_of(1))}).whole.has_value());
  const PlanAnswer answer = plans.hear(agent(1), PlanWanted{name_of(plan_of(2))});
  EXPECT_TRUE(answer.whole.has_value());
  EXPECT_EQ(answer.log, "node 1 could not get the plan of view 2 from another node");
}

TEST_F(PlanSenderTest, ChangesOfNothingAreNonsense) {
  const Plan before = plan_of(1), after = plan_of(2);
  EXPECT_TRUE(plans.hear(agent(0), update_of(&before, after)).is_nonsense);
}

}  // namespace
}  // namespace evermoe
