// Who is told a plan by whom, and as what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/controller/relay/controller_relay_testing.h"

namespace evermoe {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr int64_t kStart = first_start(0);

// Two nodes that can be asked for plans, one role each; the controller tells one of them.
class RelayPlans : public testing::Test {
 protected:
  // Up to the reports for view 1.
  RelayPlans() {
    relay.over_a_network();
    for (const int node : {0, 1}) relay.agent(node).ready(node + 1);
    for (const int rank : {0, 1}) relay.started(rank, kStart + rank).joined(rank, kStart + rank);
    relay.did();
  }
  TestRelay& all_report() {
    return relay.reports(0, kStart, View(1)).reports(1, kStart + 1, View(1)).is_in(View(1));
  }

  TestRelay relay{{.plan_branches = 1}};
};

// Rank 0 ends and is played again, by another process.
TestRelay& plays_rank_0_again(TestRelay& relay) {
  relay.ended(0, kStart).wait(5);
  const int64_t start = kStart + 2;
  return relay.plays_since(0, View(2))
      .started(0, start)
      .joined(0, start)
      .reports(0, start, View(2))
      .reports(1, kStart + 1, View(2));
}

TEST_F(RelayPlans, TheFirstFewAreToldThePlanTheOthersWhomToAsk) {
  EXPECT_EQ(all_report().did(), "1: plan rank 0, 2: fetch from node-0:1 within 2s");
  const FetchPlan& fetch = relay.fetch();
  const Plan told = *apply_update(nullptr, relay.update());
  EXPECT_EQ(name_of(told), fetch.plan);
  ASSERT_TRUE(apply_update(&told, fetch.rest).ok());
  ASSERT_EQ(fetch.rest.to.size(), 1u);
  EXPECT_EQ(fetch.rest.to[0].rank, Rank(1));
  EXPECT_TRUE(fetch.rest.table.ranks.empty()) << "what is large is not in it";
}

TEST_F(RelayPlans, WhoCouldNotGetThePlanIsToldItHere) {
  all_report();
  relay.did();
  EXPECT_EQ(relay.hears(2, PlanWanted{relay.fetch().plan}).did(), "2: plan");
  EXPECT_THAT(relay.logged(),
              EndsWith("node 1 could not get the plan of view 1 from another node"));
  EXPECT_EQ(name_of(*apply_update(nullptr, relay.update())), relay.fetch().plan);
  EXPECT_EQ(relay.hears(2, PlanWanted{{View(1), {1, 2}}}).did(), "") << "another plan";
}

TEST_F(RelayPlans, WhoHasFetchedAPlanIsToldWhatChangesIt) {
  all_report();
  relay.hears(2, PlanHeld{relay.fetch().plan}).did();
  EXPECT_THAT(plays_rank_0_again(relay).did(), EndsWith("1: plan rank 0, 2: plan rank 1"));
  EXPECT_EQ(relay.update().base, View(1));
}

TEST_F(RelayPlans, WhoHasNotSaidSoYetFetchesTheNextOneToo) {
  all_report();
  relay.did();
  EXPECT_THAT(plays_rank_0_again(relay).did(), HasSubstr("2: plan rank 1"))
      << "it is the first of those who need it whole";
  EXPECT_EQ(relay.update().base, View(0));
}

TEST_F(RelayPlans, ARunHasNothingToDoWithPlans) {
  all_report();
  relay.run_attaches().did();
  EXPECT_THAT(relay.hears(kRunStream, PlanWanted{relay.fetch().plan}).did(), HasSubstr("cut 100"));
}

}  // namespace
}  // namespace evermoe
