// Who counts as lost because nothing is heard of it; limits: silence 5 s, start 20 s, report 10 s.
#include "control/controller/stalls/silence_limits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace evermoe {
namespace {

constexpr Node kHere{0};
constexpr int64_t kPeriod = 1;

class Silence : public testing::Test {
 protected:
  Silence() {
    nodes_.join(kHere, at(0));
    role().starvation.on_start();
  }
  static absl::Duration at(double seconds) { return absl::Seconds(1000 + seconds); }
  RoleState& role() { return roles_[Rank(0)]; }
  void joins(double seconds) {
    roles_.join({.rank = Rank(0), .since = View(0), .node = kHere}, at(seconds));
  }
  void agent_is_heard(double seconds) { nodes_.hear(kHere, at(seconds)); }
  std::string verdict(double seconds) {
    return limits_.verdict(at(seconds), Rank(0), roles_, nodes_);
  }

  const ControllerOptions options_{.start_max = absl::Seconds(20),
                                   .report_max = absl::Seconds(10),
                                   .silence_max = absl::Seconds(5),
                                   .own_standstill = absl::Seconds(2)};
  RoleTable roles_{1};
  NodeTable nodes_{absl::Seconds(2.5)};
  SilenceLimits limits_{options_};
};

TEST_F(Silence, AWorkerIsLostWhenItsAgentIsHeardAndItIsNot) {
  joins(0);
  agent_is_heard(5);
  EXPECT_EQ(verdict(4.9), "");
  EXPECT_EQ(verdict(5), "hung: no sign of life for 5s");
}

TEST_F(Silence, OfAWorkerWhoseAgentIsNotHeardNothingIsKnown) {
  joins(0);
  agent_is_heard(4.9);
  EXPECT_EQ(verdict(60), "");
}

TEST_F(Silence, WhatDoesNotPlayTheRoleYetGivesNoSigns) {
  roles_.start(Rank(0), kHere, View(1), at(20));
  agent_is_heard(19);
  EXPECT_EQ(verdict(19), "");
  EXPECT_EQ(verdict(20), "did not come up in time");
}

TEST_F(Silence, LateTimersOnEitherSideGiveMoreTime) {
  EXPECT_EQ(limits_.allowance(at(0), kHere, absl::Seconds(5)), absl::ZeroDuration());
  limits_.note(at(0), kHere, absl::Seconds(0.5));
  EXPECT_EQ(limits_.allowance(at(0), kHere, absl::Seconds(5)), absl::Seconds(2));
  EXPECT_EQ(limits_.allowance(at(0), Node(1), absl::Seconds(5)), absl::ZeroDuration());
  limits_.note_own(at(0), absl::Seconds(0.75));
  EXPECT_EQ(limits_.allowance(at(0), kHere, absl::Seconds(5)), absl::Seconds(4));
  EXPECT_EQ(limits_.allowance(at(0), Node(1), absl::Seconds(5)), absl::Seconds(4));
}

TEST_F(Silence, TimeWithoutAProcessorDoesNotCount) {
  joins(0);
  role().starvation.on_report(absl::Seconds(3), kPeriod);
  agent_is_heard(7.9);
  EXPECT_EQ(verdict(7.9), "");
  agent_is_heard(8);
  EXPECT_EQ(verdict(8), "hung: no sign of life for 8s");
}

TEST_F(Silence, WhoWasStarvedHasItsTimeToReportAnew) {
  joins(0);
  roles_.ask(Rank(0), at(10));
  role().starvation.on_report(absl::Seconds(4), kPeriod);
  role().hear(at(9));
  agent_is_heard(9);
  EXPECT_EQ(verdict(10), "");
  EXPECT_EQ(role().deadline(), at(14));
  role().hear(at(14));
  agent_is_heard(14);
  EXPECT_EQ(verdict(14), "did not report in time");
}

TEST_F(Silence, TheVerdictOnItsNodeComesFirst) {
  joins(0);
  roles_.ask(Rank(0), at(4));
  EXPECT_EQ(verdict(4), "");
  EXPECT_EQ(role().deadline(), at(9));
  EXPECT_TRUE(are_all_out_of_sight(at(4), roles_, nodes_));
  agent_is_heard(4);
  EXPECT_FALSE(are_all_out_of_sight(at(4), roles_, nodes_));
}

// Thousands of roles, and as many messages: they are looked at only while one of them may be lost.
TEST(DueRoles, AreAllOfWhomThereIsAVerdict) {
  constexpr int kRoles = 4;
  for (uint32_t seed = 0; seed < 50 && !testing::Test::HasFailure(); ++seed) {
    std::mt19937 draws(seed);
    const auto draw = [&](int below) { return static_cast<int>(draws() % uint32_t(below)); };
    const ControllerOptions options{.silence_max = absl::Seconds(5)};
    RoleTable roles(kRoles);
    NodeTable nodes(absl::Seconds(2.5));
    SilenceLimits limits(options);
    absl::Duration now = absl::Seconds(1000);
    nodes.join(kHere, now);
    for (int n = 0; n < 400; ++n, now += absl::Seconds(draw(3))) {
      const Rank rank(draw(kRoles));
      const int what = draw(8);
      if (what == 0) roles.start(rank, kHere, View(1), now + absl::Seconds(draw(6)));
      if (what == 1) roles.join({.rank = rank, .node = kHere}, now);
      if (what == 2) roles.ask(rank, now + absl::Seconds(draw(6)));
      if (what == 3) roles.note_report({.rank = rank});
      if (what > 3) roles[rank].hear(now);
      if (draw(3) > 0) nodes.hear(kHere, now);
      std::vector<Rank> lost;
      for (int32_t r = 0; r < kRoles; ++r) {
        RoleTable all = roles;
        if (!limits.verdict(now, Rank(r), all, nodes).empty()) lost.emplace_back(r);
      }
      const std::vector<Rank> due = limits.due(now, roles);
      for (const Rank one : lost) EXPECT_EQ(std::ranges::count(due, one), 1) << seed << " " << n;
      for (const Rank one : due) {
        if (!limits.verdict(now, one, roles, nodes).empty()) roles.lose(one);
      }
    }
  }
}

TEST_F(Silence, WhileNobodyCanBeLostNobodyIsLookedAt) {
  roles_.join({.rank = Rank(0), .node = kHere}, at(0));
  EXPECT_TRUE(limits_.due(at(1), roles_).empty());
  EXPECT_TRUE(limits_.due(at(4.9), roles_).empty());
  EXPECT_EQ(limits_.due(at(5), roles_).size(), 1u);
  roles_.ask(Rank(0), at(6));
  role().hear(at(5));
  EXPECT_TRUE(limits_.due(at(5.9), roles_).empty());
  EXPECT_EQ(limits_.due(at(6), roles_).size(), 1u);
}

}  // namespace
}  // namespace evermoe
