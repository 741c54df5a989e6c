#include "control/controller/relay/leaving_agents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class LeavingAgentsTest : public testing::Test {
 protected:
  RelayPeer& attaches(int node) {
    RelayPeers::Stream& peer = peers.meet(StreamNumber(node));
    peer.second.node = Node(node);
    peer.second.is_fed = true;
    peers.set_agent(peer);
    return peer.second;
  }
  void leaves(int node, double now) { leaving.on_leaves(absl::Seconds(now), Node(node)); }
  std::vector<Node> take(double now) { return leaving.take(absl::Seconds(now), peers); }

  RelayPeers peers;
  LeavingAgents leaving{absl::Milliseconds(300)};
};

TEST_F(LeavingAgentsTest, AllWhoHaveSaidSoGoWithTheFirst) {
  for (const int node : {0, 1, 2}) attaches(node);
  EXPECT_EQ(leaving.next_due(), absl::InfiniteDuration());
  leaves(2, 1);
  leaves(0, 1.2);
  leaves(2, 1.25);
  EXPECT_THAT(take(1.2), IsEmpty());
  EXPECT_EQ(leaving.next_due(), absl::Seconds(1.3)) << "who says it twice waits no longer";
  EXPECT_THAT(take(1.3), ElementsAre(Node(0), Node(2)));
  EXPECT_THAT(take(9), IsEmpty());
}

TEST_F(LeavingAgentsTest, WhoHasNotComeCannotGo) {
  RelayPeer& agent = attaches(0);
  agent.is_fed = false;
  leaves(0, 1);
  EXPECT_THAT(take(1.3), IsEmpty());
  agent.is_fed = true;
  EXPECT_THAT(take(1.5), IsEmpty());
  EXPECT_THAT(take(1.6), ElementsAre(Node(0)));
}

TEST_F(LeavingAgentsTest, AnotherAgentOfTheNodeHasNotSaidSo) {
  attaches(0);
  leaves(0, 1);
  leaving.on_attached(Node(0));
  EXPECT_THAT(take(2), IsEmpty());
}

}  // namespace
}  // namespace evermoe
