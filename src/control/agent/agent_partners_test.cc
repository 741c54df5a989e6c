#include "control/agent/agent_partners.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

TEST(AgentPartners, TheControllerHearsWhenAllHaveAnswered) {
  AgentPartners partners(Node(1));
  AskPartners order;
  order.partners = {{Node(2), "other:1"}};
  order.answer_max = absl::Seconds(4);
  const AgentActions asks = partners.ask(absl::ZeroDuration(), order);
  ASSERT_THAT(asks, SizeIs(1));
  const int64_t number = std::get<AskPartner>(asks[0]).number;
  EXPECT_LE(partners.next_due(), absl::Seconds(4));
  EXPECT_THAT(partners.on_answer(number, {0, Drain{}}), IsEmpty()) << "that is no answer";
  const AgentActions report = partners.on_answer(number, {0, PartnerAnswer{Node(2), ""}});
  ASSERT_FALSE(report.empty());
  EXPECT_TRUE(std::holds_alternative<PartnersAsked>(
      std::get<ToController>(report.back()).envelope.message));
}

TEST(AgentPartners, WhoAsksIsAnsweredAndCutWhenItDoesNotHangUp) {
  AgentPartners partners(Node(1));
  const AgentActions answer = partners.on_question(absl::ZeroDuration(), StreamNumber(8));
  ASSERT_THAT(answer, SizeIs(1));
  const auto& told = std::get<ToAskers>(answer[0]);
  EXPECT_EQ(std::get<PartnerAnswer>(told.envelope.message).node, Node(1));
  partners.on_question(absl::ZeroDuration(), StreamNumber(9));
  partners.on_asker_gone(StreamNumber(9));
  const AgentActions late = partners.on_time(PartnerAnswers::kAskerMax);
  ASSERT_THAT(late, SizeIs(1));
  EXPECT_EQ(std::get<CutAsker>(late[0]).stream, StreamNumber(8));
}

}  // namespace
}  // namespace evermoe
