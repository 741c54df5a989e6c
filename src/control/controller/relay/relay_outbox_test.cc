#include "control/controller/relay/relay_outbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

class RelayOutboxTest : public testing::Test {
 protected:
  RelayPeers peers;
  RunHistory history;
  RelayOutbox out{peers, history};
};

TEST_F(RelayOutboxTest, ThingsComeOutOnceInTheirOrder) {
  out.log("a line");
  out.cut(StreamNumber(3));
  const std::vector<RelayAction> actions = out.take();
  ASSERT_EQ(actions.size(), 2u);
  EXPECT_EQ(std::get<LogLine>(actions[0]).text, "a line");
  EXPECT_EQ(std::get<CutStream>(actions[1]).stream, StreamNumber(3));
  EXPECT_TRUE(out.take().empty());
}

TEST_F(RelayOutboxTest, ANodeWithoutAnAgentIsNotReached) {
  out.send_to_node(Node(1), Drain{});
  EXPECT_TRUE(out.take().empty());
  RelayPeers::Stream& peer = peers.meet(StreamNumber(4));
  peer.second.node = Node(1);
  peers.set_agent(peer);
  out.send_to_node(Node(1), Drain{}, 7);
  const std::vector<RelayAction> actions = out.take();
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(std::get<SendEnvelope>(actions[0]).to, StreamNumber(4));
  EXPECT_EQ(std::get<SendEnvelope>(actions[0]).envelope.start, 7);
}

TEST_F(RelayOutboxTest, WhatNoRunHearsIsKeptForIt) {
  out.tell_run(WorkerLogTail{Rank(0), "log", {}});
  out.tell_run(RoleProcess{Rank(0), 1});
  EXPECT_TRUE(out.take().empty());
  EXPECT_EQ(history.tell(absl::ZeroDuration()).size(), 1u) << "who plays what it is told anyway";
  peers.set_run(peers.meet(StreamNumber(9)));
  out.tell_run(WorkerLogTail{Rank(0), "log", {}});
  EXPECT_EQ(out.take().size(), 1u);
  EXPECT_TRUE(history.tell(absl::ZeroDuration()).empty());
}

}  // namespace
}  // namespace evermoe
