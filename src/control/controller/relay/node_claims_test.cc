#include "control/controller/relay/node_claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr StreamNumber kFirst(1), kSecond(2), kThird(3);

// Node 4 has an agent on stream 1; others call for it on streams 2 and 3.
class NodeClaimsTest : public testing::Test {
 protected:
  NodeClaimsTest() {
    RelayPeers::Stream& agent = peers_.meet(kFirst);
    agent.second.kind = PeerKind::kAgent;
    agent.second.node = kNode;
    peers_.set_agent(agent);
  }
  void claim(double at, StreamNumber stream) {
    claims_.on_claim(absl::Seconds(at), {stream, {.node = kNode}});
  }
  std::vector<StreamNumber> taken(double at) {
    std::vector<StreamNumber> streams;
    for (const NodeClaim& claim : claims_.take_due(absl::Seconds(at), peers_))
      streams.push_back(claim.stream);
    return streams;
  }

  static constexpr Node kNode{4};
  RelayPeers peers_;
  NodeClaims claims_{{.proof = absl::Seconds(2), .patience = absl::Seconds(8)}};
};

TEST_F(NodeClaimsTest, AllAreRefusedWhoseNodeHasALivingAgent) {
  claim(10, kSecond);
  claim(11, kThird);
  EXPECT_THAT(claims_.on_sign(absl::Seconds(11.5), kNode), IsEmpty())
      << "that may have been on its way";
  EXPECT_THAT(claims_.on_sign(absl::Seconds(13.5), Node(5)), IsEmpty()) << "of another node";
  EXPECT_THAT(claims_.on_sign(absl::Seconds(13.5), kNode), ElementsAre(kSecond, kThird));
  EXPECT_THAT(taken(100), IsEmpty());
}

TEST_F(NodeClaimsTest, TheFirstOneTakesThePlaceOfASilentAgentAndTheNextOneWaitsForASignOfThat) {
  claim(10, kSecond);
  claim(11, kThird);
  EXPECT_THAT(taken(17.9), IsEmpty());
  EXPECT_EQ(claims_.next_due(), absl::Seconds(18));
  EXPECT_THAT(taken(18), ElementsAre(kSecond));
  EXPECT_THAT(taken(20), IsEmpty());
  EXPECT_THAT(claims_.on_sign(absl::Seconds(20), kNode), ElementsAre(kThird));
}

TEST_F(NodeClaimsTest, NobodyWaitsForAnAgentThatHasGoneOrWhoseLineBroke) {
  claim(10, kSecond);
  peers_.find(kFirst)->broke = absl::Seconds(10);
  EXPECT_THAT(taken(10), ElementsAre(kSecond));
  claim(11, kThird);
  peers_.forget(kFirst);
  EXPECT_THAT(taken(11), ElementsAre(kThird));
}

TEST_F(NodeClaimsTest, WhoHasGoneIsNeitherRefusedNorAdmitted) {
  claim(10, kSecond);
  claims_.forget(kSecond);
  EXPECT_THAT(claims_.on_sign(absl::Seconds(20), kNode), IsEmpty());
  EXPECT_THAT(taken(20), IsEmpty());
  EXPECT_EQ(claims_.next_due(), absl::InfiniteDuration());
}

}  // namespace
}  // namespace evermoe
