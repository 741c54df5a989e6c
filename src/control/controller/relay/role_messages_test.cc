#include "control/controller/relay/role_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

// Process 5 plays rank 0 on node 2.
class RoleMessages : public testing::Test {
 protected:
  RoleMessages() { processes.hear(Rank(0), 5, Node(2), absl::ZeroDuration()); }
  template <typename Message>
  HeardOfRole hear(int64_t start, const Message& message) {
    return hear_of_role(absl::Seconds(3), Node(2), start, message, processes);
  }

  RoleProcesses processes{2, 0};
};

TEST_F(RoleMessages, AProcessThatHasStartedIsShownWithItsPid) {
  const HeardOfRole heard = hear(6, WorkerStarted{Rank(0), View(4), 77});
  EXPECT_TRUE(heard.is_shown);
  EXPECT_EQ(heard.pid, 77);
  EXPECT_FALSE(heard.event.has_value());
  EXPECT_EQ(processes.of(Rank(0)).start, 6);
  EXPECT_EQ(processes.of(Rank(0)).since, View(4));
}

TEST_F(RoleMessages, AnOlderProcessIsToldToEndAndNotHeard) {
  const HeardOfRole heard = hear(4, MemberAlive{Rank(0), View(1), View(1)});
  ASSERT_TRUE(heard.replaced.has_value());
  EXPECT_EQ(heard.replaced->node, Node(2));
  EXPECT_FALSE(heard.event.has_value());
  EXPECT_EQ(processes.of(Rank(0)).heard, absl::ZeroDuration());
}

TEST_F(RoleMessages, ASignThatIsToldLateIsNoNewsOfTheTimeSince) {
  hear(5, MemberSaid{Rank(0), View(1), Finished{Rank(0), Step(1)}});
  EXPECT_EQ(processes.of(Rank(0)).heard, absl::Seconds(3));
  const MemberAlive alive{Rank(0), View(1), View(1)};
  const HeardOfRole heard = hear_of_role(absl::Seconds(2), Node(2), 5, alive, processes);
  EXPECT_TRUE(heard.event.has_value());
  EXPECT_EQ(processes.of(Rank(0)).heard, absl::Seconds(3));
}

TEST_F(RoleMessages, TheCoreHearsOnWhichNodeItIs) {
  MemberJoined joined;
  joined.node = Node(9);
  EXPECT_EQ(std::get<MemberJoined>(*hear(5, joined).event).node, Node(2));
  const HeardOfRole ended = hear(5, WorkerEnded{Rank(0), View(1), Node(9), "killed"});
  EXPECT_EQ(std::get<WorkerEnded>(*ended.event).node, Node(2));
  EXPECT_EQ(ended.pid, 0);
}

TEST_F(RoleMessages, AMemberSpeaksOfItselfAndAccusesWhoIsThere) {
  Trouble trouble;
  trouble.accused = Rank(1);
  EXPECT_EQ(hear(5, MemberSaid{Rank(0), View(1), trouble}).accused, Rank(1));
  trouble.accused = Rank(2);
  EXPECT_TRUE(hear(5, MemberSaid{Rank(0), View(1), trouble}).is_nonsense) << "no such rank";
  trouble.accused.reset();
  trouble.rank = Rank(1);
  EXPECT_TRUE(hear(5, MemberSaid{Rank(0), View(1), trouble}).is_nonsense) << "it is another one";
  EXPECT_TRUE(hear(5, MemberAlive{Rank(2), View(1), View(1)}).is_nonsense);
}

TEST_F(RoleMessages, WhatIsForPeopleGoesToTheRun) {
  EXPECT_TRUE(hear(5, WorkerReport{.rank = Rank(0)}).for_run.has_value());
  EXPECT_FALSE(hear(4, WorkerReport{.rank = Rank(0)}).for_run.has_value());
  EXPECT_TRUE(hear(5, WorkerReport{.rank = Rank(2)}).is_nonsense);
  EXPECT_TRUE(hear(4, WorkerLogTail{Rank(0), "log", {}}).for_run.has_value())
      << "the last words of one that is replaced already";
}

}  // namespace
}  // namespace evermoe
