// When machines are asked whether they reach each other, and what becomes of what they say.
#include "control/controller/relay/network_rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace evermoe {
namespace {

using ::testing::HasSubstr;

// Nodes 0 .. count - 1, of which some lines are cut. Seconds.
class Machines {
 public:
  explicit Machines(int count, bool is_begun = false)
      : rounds_({}, absl::Seconds(5), is_begun, absl::ZeroDuration()) {
    for (int32_t n = 0; n < count; ++n) there_.insert(Node(n));
  }
  Machines& wanted() { return rounds_.want(now_), *this; }
  Machines& comes(int node) {
    there_.insert(Node(node));
    return rounds_.on_joined(now_), *this;
  }
  Machines& goes(int node) {
    there_.erase(Node(node));
    return rounds_.on_lost(now_, Node(node)), *this;
  }
  Machines& says_nothing(int node) { return mute_.insert(Node(node)), *this; }
  Machines& cut(int one, int other) { return set(one, other, true); }
  Machines& heal(int one, int other) { return set(one, other, false); }
  Machines& cut_from_all(int node) {
    for (const Node other : there_) cut(node, other.value);
    return *this;
  }
  Machines& heal_all() { return cut_.clear(), *this; }

  // What happened meanwhile: "second: round of so many", and the story.
  std::string wait(double seconds) {
    std::vector<std::string> story;
    const absl::Duration end = now_ + absl::Seconds(seconds);
    for (; now_ < end; now_ += absl::Milliseconds(100)) {
      if (rounds_.is_due(now_)) begin(story);
      if (!rounds_.is_over(now_)) continue;
      for (std::string& line : rounds_.take(now_)) story.push_back(std::move(line));
    }
    return absl::StrJoin(story, ", ");
  }
  std::string unfit() const {
    std::vector<int> unfit;
    for (int32_t n = 0; n < 20; ++n) {
      if (!rounds_.complaint(Node(n)).empty()) unfit.push_back(n);
    }
    return absl::StrJoin(unfit, " ");
  }
  NetworkRounds& rounds() { return rounds_; }

 private:
  Machines& set(int one, int other, bool is_cut) {
    for (const auto& pair : {std::pair(one, other), std::pair(other, one)})
      is_cut ? (void)cut_.insert(pair) : (void)cut_.erase(pair);
    return *this;
  }
  void begin(std::vector<std::string>& story) {
    std::vector<AskPartners::Partner> members;
    for (const Node node : there_) members.push_back({node, absl::StrCat("n", node.value)});
    const auto orders = rounds_.begin(now_, members);
    story.push_back(absl::StrCat(absl::ToDoubleSeconds(now_), ": round of ", orders.size()));
    for (const auto& [to, order] : orders) {
      if (mute_.contains(to)) continue;
      PartnersAsked report{order.round, {}};
      for (const AskPartners::Partner& partner : order.partners) {
        EXPECT_EQ(partner.lines, absl::StrCat("n", partner.node.value));
        if (cut_.contains({to.value, partner.node.value}))
          report.silent.push_back({partner.node, "cut"});
      }
      rounds_.on_report(to, report);
    }
  }

  absl::Duration now_;
  NetworkRounds rounds_;
  std::set<Node> there_, mute_;
  std::set<std::pair<int, int>> cut_;
};

// ---- when

TEST(NetworkRounds, TheFirstIsWantedAndTheNextComesAMinuteLater) {
  Machines machines(3);
  EXPECT_EQ(machines.comes(2).wait(10), "") << "the job does not begin yet";
  EXPECT_EQ(machines.wanted().wait(50), "10: round of 3");
  EXPECT_EQ(machines.wait(70), "70: round of 3");
}

TEST(NetworkRounds, WhoComesLaterIsAskedSoon) {
  Machines machines(3);
  machines.wanted().wait(1);
  EXPECT_EQ(machines.comes(3).wait(20), "2: round of 4");
  EXPECT_EQ(machines.comes(4).wait(1), "21: round of 5");
  machines.comes(5).comes(6);
  EXPECT_EQ(machines.wait(20), "23: round of 7") << "not one for each";
}

TEST(NetworkRounds, WhoComesDuringARoundIsAskedSoonAfterIt) {
  Machines machines(3);
  machines.says_nothing(2).wanted().wait(1);
  EXPECT_EQ(machines.comes(3).wait(10), "7: round of 4");
  EXPECT_EQ(machines.wait(50), "") << "once";
}

TEST(NetworkRounds, AControllerThatTakesOverIsInNoHurry) {
  Machines machines(1, /*is_begun=*/true);
  EXPECT_EQ(machines.comes(1).comes(2).wait(10), "2: round of 3");
}

TEST(NetworkRounds, ThereMayBeNone) {
  NetworkRounds none({}, absl::ZeroDuration(), true, absl::ZeroDuration());
  none.want(absl::ZeroDuration());
  none.on_joined(absl::ZeroDuration());
  EXPECT_EQ(none.next_due(), absl::InfiniteDuration());
}

TEST(NetworkRounds, OneMachineIsNotKeptWaiting) {
  Machines machines(1);
  EXPECT_EQ(machines.wanted().wait(0.1), "0: round of 0");
  EXPECT_GT(machines.rounds().next_due(), absl::Seconds(50));
}

TEST(NetworkRounds, WhoSaysNothingHoldsARoundUpNoLongerThanItMayTake) {
  Machines machines(4);
  machines.cut_from_all(3).says_nothing(3).wanted().wait(4.9);
  EXPECT_EQ(machines.unfit(), "");
  machines.wait(0.2);
  EXPECT_EQ(machines.unfit(), "3");
}

TEST(NetworkRounds, WhileOneIsUnfitPausesDouble) {
  Machines machines(4);
  machines.cut_from_all(3).wanted();
  EXPECT_EQ(machines.wait(40),
            "0: round of 4, 2: round of 4, 6: round of 4, 14: round of 4, 24: round of 4, "
            "34: round of 4")
      << "but not for longer than the longest";
}

// ---- what comes of it

TEST(NetworkRounds, AMachineIsUnfitUntilARoundSaysOtherwise) {
  Machines machines(4);
  machines.cut_from_all(2).wanted().wait(0.1);
  EXPECT_EQ(machines.unfit(), "2");
  EXPECT_THAT(machines.rounds().complaint(Node(2)), HasSubstr("network: 3 of 3 machines"));
  machines.heal_all().wait(5);
  EXPECT_EQ(machines.unfit(), "");
}

TEST(NetworkRounds, WhatIsNotAskedIsNoSignOfHealth) {
  Machines machines(4);
  machines.cut_from_all(2).wanted().wait(0.1);
  machines.goes(2).wait(25);
  EXPECT_EQ(machines.unfit(), "2");
  machines.heal_all().comes(2).wait(0.1);
  EXPECT_EQ(machines.unfit(), "2");
  machines.wait(3);
  EXPECT_EQ(machines.unfit(), "");
}

TEST(NetworkRounds, APairIsToldOnceAndOnceThatItIsWell) {
  Machines machines(4);
  EXPECT_EQ(machines.cut(1, 2).wanted().wait(100),
            "0: round of 4, network: node 1 and node 2 do not reach each other: cut; which of them "
            "is at fault cannot be told, 60: round of 4");
  EXPECT_EQ(machines.unfit(), "");
  EXPECT_EQ(machines.heal_all().wait(100),
            "120: round of 4, network: node 1 and node 2 reach each other again, 180: round of 4");
}

TEST(NetworkRounds, OfTwoMachinesNeitherIsBlamed) {
  Machines machines(2);
  EXPECT_THAT(machines.cut(0, 1).wanted().wait(1), HasSubstr("node 0 and node 1 do not reach"));
  EXPECT_EQ(machines.unfit(), "");
}

TEST(NetworkRounds, OneIsNotLeftOutForEverByThoseWhoAreGone) {
  Machines machines(4);
  machines.cut_from_all(3).wanted().wait(0.1);
  machines.goes(0).goes(1).wait(10);
  EXPECT_EQ(machines.unfit(), "3") << "it does not reach the one that is left";
  machines.goes(2).wait(10);
  EXPECT_EQ(machines.unfit(), "") << "it needs nobody";
}

TEST(NetworkRounds, NotAllAreUnfit) {
  Machines machines(5);
  machines.cut_from_all(3).cut_from_all(4).wanted().wait(0.1);
  EXPECT_EQ(machines.unfit(), "3 4");
  machines.goes(0).goes(1).goes(2).wait(10);
  EXPECT_EQ(machines.unfit(), "");
}

TEST(NetworkRounds, WhoIsLostDuringARoundIsNotJudged) {
  NetworkRounds rounds({}, absl::Seconds(5), true, absl::ZeroDuration());
  const auto orders = rounds.begin(absl::ZeroDuration(),
                                   {{Node(0), ""}, {Node(1), ""}, {Node(2), ""}, {Node(3), ""}});
  rounds.on_lost(absl::Seconds(1), Node(3));
  for (const auto& [to, order] : orders) rounds.on_report(to, {order.round, {{Node(3), "gone"}}});
  ASSERT_TRUE(rounds.is_over(absl::Seconds(1)));
  rounds.take(absl::Seconds(1));
  EXPECT_EQ(rounds.complaint(Node(3)), "");
}

TEST(NetworkRounds, OnlyWhatWasAskedInThisRoundCounts) {
  NetworkRounds rounds({}, absl::Seconds(5), true, absl::ZeroDuration());
  rounds.begin(absl::ZeroDuration(), {{Node(0), ""}, {Node(1), ""}, {Node(2), ""}});
  rounds.on_report(Node(0), {99, {{Node(1), "no"}}});
  rounds.on_report(Node(7), {0, {{Node(1), "no"}}});
  EXPECT_FALSE(rounds.is_over(absl::Seconds(1)));
  for (const int n : {0, 1, 2}) rounds.on_report(Node(n), {0, {{Node(8), "no"}, {Node(9), "no"}}});
  ASSERT_TRUE(rounds.is_over(absl::Seconds(1)));
  EXPECT_TRUE(rounds.take(absl::Seconds(1)).empty());
  EXPECT_EQ(rounds.complaint(Node(8)), "");
}

}  // namespace
}  // namespace evermoe
