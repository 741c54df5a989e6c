// Machines that would compute other bits; worker 0.0 on node 0 joins first.
#include "control/controller/status/arithmetic_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Arithmetic : public testing::Test {
 protected:
  Arithmetic() {
    for (int32_t node = 0; node < 3; ++node) nodes_.join(Node(node), absl::ZeroDuration());
  }
  ArithmeticDecision joins(int32_t rank, int32_t node, const std::string& arithmetic,
                           Commit newest = Commit(-1)) {
    return check_.decide({.rank = Rank(rank), .node = Node(node), .arithmetic = arithmetic}, nodes_,
                         newest, /*nodes_needed=*/2);
  }
  void says(int32_t node, const std::string& arithmetic) {
    check_.on_node({.node = Node(node), .arithmetic = arithmetic});
  }

  const Topology topology_{{2, 2}, 2};
  NodeTable nodes_{absl::Seconds(2)};
  ArithmeticCheck check_{topology_};
};
using Decides = ArithmeticDecision::Kind;

TEST_F(Arithmetic, TheFirstWorkerIsTheMeasure) {
  EXPECT_EQ(joins(0, 0, "cpu=new").kind, Decides::kJoin);
  EXPECT_EQ(joins(1, 0, "cpu=new").kind, Decides::kJoin);
  const ArithmeticDecision decision = joins(2, 1, "cpu=old");
  EXPECT_EQ(decision.kind, Decides::kLeaveNodeOut);
  EXPECT_THAT(decision.difference,
              HasSubstr("would compute other bits than worker 0.0 on node 0: "));
}

TEST_F(Arithmetic, BeforeTheFirstStepAsManyMachinesAsItNeedsHaveToBeLeft) {
  joins(0, 0, "cpu=new");
  nodes_.lose(Node(2));
  EXPECT_EQ(joins(2, 1, "cpu=old").kind, Decides::kEnd);
  EXPECT_EQ(joins(2, 1, "cpu=old", Commit(0)).kind, Decides::kLeaveNodeOut) << "node 0 will do";
  nodes_.lose(Node(0));
  EXPECT_EQ(joins(2, 1, "cpu=old", Commit(0)).kind, Decides::kEnd);
}

TEST_F(Arithmetic, NodesThatSayItThemselvesAreFoundBeforeTheyPlayARole) {
  says(1, "cpu=old");
  says(2, "cpu=new");
  EXPECT_THAT(check_.take_unequal_nodes(), IsEmpty()) << "nothing to compare it with";
  joins(0, 0, "cpu=new");
  const auto unequal = check_.take_unequal_nodes();
  ASSERT_EQ(unequal.size(), 1u);
  EXPECT_EQ(unequal[0].node, Node(1));
  EXPECT_THAT(unequal[0].difference, HasSubstr("would compute other bits than worker 0.0"));
  EXPECT_THAT(check_.take_unequal_nodes(), IsEmpty()) << "once";
}

TEST_F(Arithmetic, WhoDoesNotSayItIsNotJudged) {
  joins(0, 0, "cpu=new");
  says(1, "");
  EXPECT_THAT(check_.take_unequal_nodes(), IsEmpty());
}

}  // namespace
}  // namespace evermoe
