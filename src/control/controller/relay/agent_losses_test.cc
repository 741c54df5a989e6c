#include "control/controller/relay/agent_losses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr AgentLossLimits kOverNetwork{absl::Seconds(10), absl::Seconds(1), absl::Minutes(1)};
constexpr AgentLossLimits kInsideMachine{absl::Seconds(10), absl::ZeroDuration(), absl::Minutes(1)};

// Node n is on stream n and plays rank n. Times are seconds; all have been heard at 0.
class AgentLossesTest : public testing::Test {
 protected:
  AgentLossesTest() {
    for (const int n : {0, 1, 2}) {
      RelayPeers::Stream& peer = peers.meet(StreamNumber(n));
      peer.second.kind = PeerKind::kAgent;
      peer.second.node = Node(n);
      peers.set_agent(peer);
      processes.hear(Rank(n), 1, Node(n), absl::ZeroDuration());
      processes.of(Rank(n)).pid = 10;
    }
  }
  void breaks(int n, double now) {
    peers.find(StreamNumber(n))->broke = absl::Seconds(now);
    peers.find(StreamNumber(n))->why = "it has gone";
  }
  void are_heard(std::initializer_list<int> streams, double now) {
    for (const int n : streams) peers.find(StreamNumber(n))->heard = absl::Seconds(now);
  }
  static std::vector<int64_t> streams_of(const std::vector<LostPeer>& lost) {
    std::vector<int64_t> streams;
    for (const LostPeer& one : lost) streams.push_back(one.stream.value);
    return streams;
  }
  std::vector<int64_t> not_back(double now) const {
    return streams_of(losses.not_back(absl::Seconds(now), peers, processes));
  }
  std::vector<int64_t> silent(const AgentLosses& judge, double now, double allowance = 0) const {
    return streams_of(
        judge.silent(absl::Seconds(now), peers, [&](Node) { return absl::Seconds(allowance); }));
  }

  RelayPeers peers;
  RoleProcesses processes{3, 0};
  AgentLosses losses{kOverNetwork};
};

TEST_F(AgentLossesTest, WhoseLineBrokeHasItsTime) {
  EXPECT_EQ(losses.next_due(peers, processes), absl::InfiniteDuration());
  breaks(1, 5);
  EXPECT_EQ(losses.next_due(peers, processes), absl::Seconds(6));
  EXPECT_THAT(not_back(5.9), IsEmpty());
  EXPECT_THAT(not_back(6), ElementsAre(1));
  EXPECT_EQ(losses.not_back(absl::Seconds(6), peers, processes)[0].why, "it has gone");
}

TEST_F(AgentLossesTest, WhoseLineBrokeIsAwaitedWhileTheJobGoesOn) {
  losses.on_newest(Commit{3}, absl::Seconds(4));
  breaks(1, 5);
  EXPECT_EQ(losses.next_due(peers, processes), absl::Seconds(14));
  EXPECT_THAT(not_back(13.9), IsEmpty());
  losses.on_newest(Commit{4}, absl::Seconds(13));
  EXPECT_EQ(losses.next_due(peers, processes), absl::Seconds(23));
  EXPECT_THAT(not_back(22.9), IsEmpty());
  EXPECT_THAT(not_back(23), ElementsAre(1)) << "it stands still";
}

TEST_F(AgentLossesTest, WhenTheWorkIsDoneNothingGoesOn) {
  losses.on_newest(Commit{3}, absl::Seconds(4));
  losses.on_released();
  breaks(1, 5);
  EXPECT_EQ(losses.next_due(peers, processes), absl::Seconds(6));
  EXPECT_THAT(not_back(6), ElementsAre(1));
  are_heard({0, 2}, 9);
  EXPECT_THAT(silent(losses, 10), ElementsAre(1));
}

// Its workers are no reason for the job to go on.
TEST_F(AgentLossesTest, ANodeThatPlaysNoRoleHasItsTimeWhateverTheJobDoes) {
  processes.of(Rank(1)).pid = 0;
  losses.on_newest(Commit{3}, absl::Seconds(5));
  breaks(1, 5);
  EXPECT_THAT(not_back(5.9), IsEmpty());
  EXPECT_THAT(not_back(6), ElementsAre(1));
}

TEST_F(AgentLossesTest, WhoIsAccusedMayNotReturnForAWhile) {
  const auto may_return = [&](double now) {
    return losses.may_return(absl::Seconds(now), Node(1), processes);
  };
  EXPECT_TRUE(may_return(4));
  losses.on_accused(Rank(1), absl::Seconds(4));
  EXPECT_FALSE(may_return(4.9));
  EXPECT_TRUE(losses.may_return(absl::Seconds(4.9), Node(0), processes));
  EXPECT_TRUE(may_return(5));
  EXPECT_FALSE(AgentLosses(kInsideMachine).may_return(absl::Seconds(4), Node(0), processes));
}

TEST_F(AgentLossesTest, ASilentAgentIsLostUnlessTheJobGoesOn) {
  are_heard({0, 2}, 9);
  EXPECT_THAT(silent(losses, 9.9), IsEmpty());
  EXPECT_THAT(silent(losses, 10), ElementsAre(1));
  EXPECT_EQ(
      losses.silent(absl::Seconds(10), peers, [](Node) { return absl::ZeroDuration(); })[0].why,
      "no sign of life for 10s");
  EXPECT_THAT(silent(losses, 10, 1), IsEmpty()) << "signs of life may be late there";
  EXPECT_TRUE(losses.on_newest(Commit{3}, absl::Seconds(8)));
  EXPECT_FALSE(losses.on_newest(Commit{3}, absl::Seconds(9))) << "it is known";
  are_heard({0, 2}, 17);
  EXPECT_THAT(silent(losses, 17.9), IsEmpty());
  EXPECT_THAT(silent(losses, 18), ElementsAre(1));
}

TEST_F(AgentLossesTest, MostAgentsAtOnceAreSilentForLongBeforeTheyAreLost) {
  are_heard({2}, 59);
  EXPECT_THAT(silent(losses, 59), IsEmpty());
  EXPECT_THAT(silent(losses, 60), ElementsAre(0, 1));
  EXPECT_THAT(silent(AgentLosses(kInsideMachine), 59), ElementsAre(0, 1))
      << "inside a machine lines are not cut";
}

TEST_F(AgentLossesTest, ASilentRunIsLostWhateverTheJobDoes) {
  peers.meet(StreamNumber(9)).second.kind = PeerKind::kRun;
  losses.on_newest(Commit{3}, absl::Seconds(9));
  are_heard({0, 1, 2}, 9);
  EXPECT_THAT(silent(losses, 10), ElementsAre(9));
}

}  // namespace
}  // namespace evermoe
