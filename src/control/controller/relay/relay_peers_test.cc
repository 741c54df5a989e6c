#include "control/controller/relay/relay_peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using testing::ElementsAre;

RelayPeers::Stream& attach_peer(RelayPeers& peers, int64_t stream, int node) {
  RelayPeers::Stream& peer = peers.meet(StreamNumber(stream));
  peer.second.kind = PeerKind::kAgent;
  peer.second.node = Node(node);
  peers.set_agent(peer);
  return peer;
}

TEST(RelayPeers, ANodeHasTheAgentThatAttachedUntilItIsForgotten) {
  RelayPeers peers;
  EXPECT_EQ(peers.agent(Node(3)), nullptr);
  attach_peer(peers, 7, 3);
  ASSERT_NE(peers.agent(Node(3)), nullptr);
  EXPECT_EQ(peers.agent(Node(3))->first, StreamNumber(7));
  EXPECT_EQ(peers.forget(StreamNumber(7))->node, Node(3));
  EXPECT_EQ(peers.agent(Node(3)), nullptr);
  EXPECT_FALSE(peers.forget(StreamNumber(7)).has_value());
  EXPECT_TRUE(peers.is_empty());
}

// Its node is that of a peer which has not said who it is.
TEST(RelayPeers, WhoIsUnknownIsNobodysAgent) {
  RelayPeers peers;
  attach_peer(peers, 1, 0);
  peers.meet(StreamNumber(2));
  peers.forget(StreamNumber(2));
  EXPECT_NE(peers.agent(Node(0)), nullptr);
}

TEST(RelayPeers, OnANewLineAnAgentIsAsKnownAsBefore) {
  RelayPeers peers;
  attach_peer(peers, 1, 0).second.is_fed = true;
  RelayPeers::Stream& returned = peers.meet(StreamNumber(5));
  returned.second.kind = PeerKind::kAgent;
  peers.take_back(returned.second, StreamNumber(1));
  peers.set_agent(returned);
  EXPECT_THAT(peers.fed(), ElementsAre(Node(0)));
  EXPECT_EQ(peers.agent(Node(0))->first, StreamNumber(5));
  EXPECT_EQ(peers.find(StreamNumber(1)), nullptr);
}

TEST(RelayPeers, WhoIsDismissedIsThereButNoAgent) {
  RelayPeers peers;
  attach_peer(peers, 1, 0).second.is_fed = true;
  EXPECT_EQ(peers.dismiss(Node(0))->first, StreamNumber(1));
  EXPECT_EQ(peers.dismiss(Node(0)), nullptr);
  EXPECT_TRUE(peers.fed().empty());
  EXPECT_EQ(peers.find(StreamNumber(1))->kind, PeerKind::kDismissed);
}

TEST(RelayPeers, PartnersAreReadyAndHaveALineOverANetwork) {
  RelayPeers peers;
  for (const int node : {0, 1, 2, 3}) {
    RelayPeer& peer = attach_peer(peers, node, node).second;
    peer.is_ready = node != 1;
    peer.lines = node == 2 ? "unix:/tmp/x" : "node:1";
    if (node == 3) peer.broke = absl::Seconds(1);
  }
  ASSERT_EQ(peers.partners().size(), 1u);
  EXPECT_EQ(peers.partners()[0].node, Node(0));
}

TEST(RelayPeers, BrokenLinesAreForgottenTogether) {
  RelayPeers peers;
  attach_peer(peers, 1, 0).second.broke = absl::Seconds(1);
  attach_peer(peers, 2, 1);
  peers.forget_broken();
  EXPECT_EQ(peers.agent(Node(0)), nullptr);
  EXPECT_EQ(peers.count(PeerKind::kAgent), 1);
}

}  // namespace
}  // namespace evermoe
