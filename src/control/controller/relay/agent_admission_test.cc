#include "control/controller/relay/agent_admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Two nodes begin, one spare waits for them until second 2.
class AgentAdmissionTest : public testing::Test {
 protected:
  RelayPeer& is_ready(int64_t stream, int node) {
    RelayPeer& peer = peers.meet(StreamNumber(stream)).second;
    peer.kind = PeerKind::kAgent;
    peer.node = Node(node);
    peer.is_ready = true;
    return peer;
  }
  std::vector<int> admitted(double now, bool has_begun = false) {
    std::vector<int> nodes;
    for (const RelayPeer* const peer : admission.admitted(absl::Seconds(now), peers, has_begun))
      nodes.push_back(peer->node.value);
    return nodes;
  }

  const AgentAdmission admission{{.nodes = 2, .spares = 1, .spares_wait_until = absl::Seconds(2)}};
  RelayPeers peers;
};

TEST_F(AgentAdmissionTest, WhoIsReadyComesInOnceInTheOrderOfNodes) {
  peers.meet(StreamNumber(1));
  is_ready(2, 1);
  is_ready(3, 0);
  EXPECT_THAT(admitted(0), ElementsAre(0, 1));
  peers.find(StreamNumber(2))->is_fed = true;
  EXPECT_THAT(admitted(0), ElementsAre(0));
}

TEST_F(AgentAdmissionTest, ASpareWaitsForTheOthersOrForItsTime) {
  is_ready(1, 2);
  EXPECT_THAT(admitted(1.9), IsEmpty());
  EXPECT_THAT(admitted(2), ElementsAre(2));
  for (const int node : {0, 1}) is_ready(2 + node, node).is_fed = true;
  EXPECT_THAT(admitted(1), ElementsAre(2));
}

TEST_F(AgentAdmissionTest, ASpareThatComesWhenTheJobHasBegunWaitsForNobody) {
  is_ready(1, 2);
  EXPECT_THAT(admitted(1, /*has_begun=*/true), ElementsAre(2));
}

TEST_F(AgentAdmissionTest, AnElasticJobTakesMore) {
  const AgentAdmission elastic({.nodes = 2, .spares = 1, .takes_more = true});
  EXPECT_EQ(elastic.nodes(), 3);
  EXPECT_TRUE(elastic.has(Node(40)));
  EXPECT_FALSE(elastic.has(Node(3 + AgentAdmission::kMoreNodesMax)));
}

TEST_F(AgentAdmissionTest, OtherNodesHaveNoPlace) {
  EXPECT_EQ(admission.nodes(), 3);
  EXPECT_TRUE(admission.has(Node(2)));
  EXPECT_FALSE(admission.has(Node(3)));
}

}  // namespace
}  // namespace evermoe
