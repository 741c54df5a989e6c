// A controller that has machines ask each other, and what it makes of their answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/controller/relay/controller_relay_testing.h"

namespace evermoe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Two roles on nodes 0 and 1, node 2 is the spare.
TestRelay relay_of(int64_t life = 0) { return TestRelay({.life = life, .network_max = 5}); }
PartnersAsked report(int64_t round, const std::vector<int>& silent) {
  PartnersAsked report{round, {}};
  for (const int node : silent) report.silent.push_back({Node(node), "no route"});
  return report;
}
constexpr char kQuestions[] = "1: ask node-1:1, 2: ask node-2:1, 3: ask node-0:1";

TestRelay& all_come(TestRelay& relay) {
  for (const int node : {2, 0, 1}) relay.agent(node).ready(node + 1);
  relay.did();
  return relay;
}

TEST(RelayNetwork, BeforeRolesAreGivenMachinesAskEachOther) {
  TestRelay relay = relay_of();
  relay.over_a_network();
  EXPECT_EQ(all_come(relay).wait(0.4).did(), kQuestions);
  for (const int node : {0, 1}) relay.hears(node + 1, report(0, {}));
  EXPECT_EQ(relay.wait(0.1).did(), "");
  EXPECT_EQ(relay.hears(3, report(0, {})).wait(0.1).did(), "1: start rank 0, 2: start rank 1");
}

TEST(RelayNetwork, WhoReachesNobodyIsLeftOutAndTheSpareTakesItsPlace) {
  TestRelay relay = relay_of();
  all_come(relay.over_a_network()).wait(0.4).did();
  relay.hears(1, report(0, {1})).hears(2, report(0, {2})).hears(3, report(0, {}));
  EXPECT_EQ(relay.wait(0.1).did(), "1: start rank 0, 3: start rank 1");
  EXPECT_THAT(relay.logged(),
              HasSubstr("node 1 is left out: its machine is not fit to play a role: network: 2 of "
                        "2 machines cannot be reached (node 0: no route, node 2: no route)"));
  EXPECT_EQ(relay.wait(2.1).did(), kQuestions) << "it is looked after";
  for (const int node : {0, 1, 2}) relay.hears(node + 1, report(1, {}));
  relay.wait(0.1);
  EXPECT_THAT(relay.logged(), HasSubstr("node 1 is fit again"));
}

TEST(RelayNetwork, TheJobDoesNotWaitForEver) {
  TestRelay relay = relay_of();
  all_come(relay.over_a_network()).wait(4.9).did();
  EXPECT_EQ(relay.wait(0.2).did(), "1: start rank 0, 2: start rank 1");
}

TEST(RelayNetwork, OnOneMachineNobodyIsAsked) {
  TestRelay relay = relay_of();
  EXPECT_EQ(all_come(relay).wait(0.1).did(), "1: start rank 0, 2: start rank 1");
}

TEST(RelayNetwork, AControllerThatTakesOverWaitsForNobody) {
  TestRelay relay = relay_of(1);
  relay.over_a_network().agent(0).ready(1).agent(1).ready(2).did();
  for (const int rank : {0, 1}) relay.started(rank, rank + 1).joined(rank, rank + 1, View(1));
  EXPECT_THAT(relay.wait(0.1).did(), Not(HasSubstr("ask")));
  EXPECT_THAT(relay.wait(2.5).did(), HasSubstr("1: ask node-1:1, 2: ask node-0:1"));
}

TEST(RelayNetwork, WhatAMachineFindsInItselfAndWhatOthersFindDoNotEraseEachOther) {
  TestRelay relay = relay_of();
  relay.over_a_network();
  relay.agent(0).ready(1).agent(2).ready(3).agent(1);
  relay.hears(2, AgentReady{.complaints = {"disk: full"}}).wait(0.4).did();
  relay.hears(1, report(0, {1})).hears(2, report(0, {2})).hears(3, report(0, {})).wait(0.1);
  const auto complaints = [&] {
    relay.hears(kRunStream + 1, OperatorHello{});
    return absl::StrJoin(relay.status().nodes.at(1).complaints, "; ");
  };
  EXPECT_THAT(complaints(), AllOf(HasSubstr("disk: full"), HasSubstr("network: 2 of 2")));
  relay.hears(2, AgentReady{});
  EXPECT_THAT(complaints(), AllOf(Not(HasSubstr("disk")), HasSubstr("network: 2 of 2")));
  relay.hears(2, AgentReady{.complaints = {"clock: wrong"}}).wait(2.1);
  for (const int node : {0, 1, 2}) relay.hears(node + 1, report(1, {}));
  relay.wait(0.1);
  EXPECT_EQ(complaints(), "clock: wrong");
}

TEST(RelayNetwork, OnlyAgentsMayReport) {
  TestRelay relay = relay_of();
  EXPECT_EQ(relay.hears(50, report(0, {})).did(), "cut 50");
}

}  // namespace
}  // namespace evermoe
