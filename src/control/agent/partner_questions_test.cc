// Whom an agent asks whether it is there, and whom it answers, as the agent of node 1 decides it.
#include "control/agent/partner_questions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/agent/agent_core_testing.h"

namespace evermoe {
namespace {

AskPartners order_of(int64_t round, const std::vector<int>& nodes) {
  AskPartners order{round, absl::Seconds(4), {}};
  for (const int node : nodes) order.partners.push_back({Node(node), absl::StrCat("n", node)});
  return order;
}

TestAgent asking(const std::vector<int>& nodes) {
  TestAgent agent = ready_agent();
  agent.from_controller(order_of(7, nodes));
  return agent;
}

TEST(PartnerQuestions, AllAnswer) {
  TestAgent agent = asking({2, 5});
  EXPECT_EQ(agent.did(), "question 1 to n2, question 2 to n5");
  EXPECT_EQ(agent.partner_answers(2, 5).did(), "drop 2");
  EXPECT_EQ(agent.partner_answers(1, 2).did(), "drop 1, asked in round 7: ");
  EXPECT_EQ(agent.wait(5).did(), "");
}

TEST(PartnerQuestions, OneSaysNothing) {
  TestAgent agent = asking({2, 5});
  agent.partner_answers(1, 2).did();
  EXPECT_EQ(agent.wait(3.9).did(), "");
  EXPECT_EQ(agent.wait(0.2).did(), "drop 2, asked in round 7: 5 (no answer within 4s)");
  EXPECT_EQ(agent.partner_answers(2, 5).did(), "") << "late";
}

TEST(PartnerQuestions, ALineThatBreaksMayDoSoByChance) {
  TestAgent agent = asking({2});
  agent.did();
  EXPECT_EQ(agent.partner_breaks(1).did(), "");
  EXPECT_EQ(agent.wait(0.3).did(), "question 2 to n2");
  EXPECT_EQ(agent.partner_answers(2, 2).did(), "drop 2, asked in round 7: ");
}

TEST(PartnerQuestions, OneThatKeepsBreakingIsNone) {
  TestAgent agent = asking({2});
  agent.partner_breaks(1).wait(0.3).partner_breaks(2).wait(0.3).did();
  EXPECT_EQ(agent.wait(0.2).did(), "question 3 to n2");
  EXPECT_EQ(agent.partner_breaks(3).did(), "asked in round 7: 2 (no route)");
}

TEST(PartnerQuestions, AtTheEndTheReasonIsThatTheLineBroke) {
  TestAgent agent = asking({2});
  agent.wait(3.95).partner_breaks(1).did();
  EXPECT_EQ(agent.wait(0.2).did(), "asked in round 7: 2 (no route)");
}

TEST(PartnerQuestions, AnotherNodeThatAnswersIsNotTheOneThatWasAsked) {
  TestAgent agent = asking({2});
  agent.did();
  EXPECT_EQ(agent.partner_answers(1, 3).did(),
            "drop 1, asked in round 7: 2 (node 3 answers in its place)");
}

TEST(PartnerQuestions, TheNextOrderEndsTheFormer) {
  TestAgent agent = asking({2});
  agent.did();
  EXPECT_EQ(agent.from_controller(order_of(8, {3})).did(), "drop 1, question 2 to n3");
  EXPECT_EQ(agent.partner_answers(1, 2).partner_answers(2, 3).did(), "drop 2, asked in round 8: ");
}

TEST(PartnerQuestions, WithoutItsControllerItAsksNobody) {
  TestAgent agent = asking({2});
  agent.did();
  EXPECT_EQ(agent.broken().did(), "drop 1");
  agent.wait(0.1).welcome(1).did();
  EXPECT_EQ(agent.wait(5).did(), "");
}

TEST(PartnerQuestions, AnOrderForNobodyIsDoneAndOneForTooManyIsCut) {
  EXPECT_EQ(asking({}).did(), "asked in round 7: ");
  TestAgent agent = ready_agent();
  agent.from_controller(order_of(7, {2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  const std::string did = agent.did();
  EXPECT_EQ(std::ranges::count(did, 'q'), int64_t{PartnerQuestions::kAskedMax}) << did;
}

TEST(PartnerAnswers, EverybodyIsAnsweredOnce) {
  TestAgent agent = ready_agent();
  EXPECT_EQ(agent.asker_says(4, PartnerQuestion{Node(1), ""}).did(), "answer asker 4");
  EXPECT_EQ(agent.asker_says(4, PartnerQuestion{Node(1), ""}).did(), "cut asker 4");
  EXPECT_EQ(agent.asker_says(5, PartnerQuestion{Node(1), ""}).did(), "answer asker 5");
  EXPECT_EQ(agent.asker_goes(5).did(), "");
  EXPECT_EQ(agent.asker_says(6, Beat{}).did(), "cut asker 6");
}

TEST(PartnerAnswers, WhoDoesNotHangUpIsCut) {
  TestAgent agent = ready_agent();
  agent.asker_says(4, PartnerQuestion{Node(1), ""}).did();
  for (int i = 0; i < 32; ++i) agent.wait(1).from_controller(Beat{});
  EXPECT_EQ(agent.did(), "cut asker 4");
}

TEST(PartnerAnswers, TooManyAreCut) {
  TestAgent agent = ready_agent();
  for (size_t n = 1; n <= PartnerAnswers::kAskersMax; ++n)
    agent.asker_says(static_cast<int64_t>(n), PartnerQuestion{Node(1), ""});
  agent.did();
  EXPECT_EQ(agent.asker_says(1000, PartnerQuestion{Node(1), ""}).did(), "cut asker 1000");
}

TEST(PartnerAnswers, ALineOnWhichOnlySmallPacketsPassIsNone) {
  EXPECT_GT(PartnerQuestions::kFillingBytes, 9000u) << "the largest packets of an Ethernet";
  PartnerQuestions questions;
  const PartnerActions asked = questions.ask(absl::ZeroDuration(), order_of(1, {2}));
  EXPECT_EQ(std::get<AskPartner>(asked.at(0)).question.filling.size(),
            PartnerQuestions::kFillingBytes);
  const auto answer = PartnerAnswers().on_question(absl::ZeroDuration(), StreamNumber(1), Node(1));
  EXPECT_EQ(answer->filling.size(), PartnerQuestions::kFillingBytes);
}

}  // namespace
}  // namespace evermoe
