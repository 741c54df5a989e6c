// What becomes of a node that leaves: role 0 on node 0, role 1 on node 1, each other's holders.
#include "control/controller/status/leaving_decision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using ::testing::ElementsAre;
using Fate = LeavingDecision::Kind;

class Leaving : public testing::Test {
 protected:
  Leaving() {
    for (const int32_t n : {0, 1, 2}) nodes_.join(Node(n), kNow);
    for (const int32_t r : {0, 1}) {
      roles_.join({.rank = Rank(r), .node = Node(r)}, kNow);
      roles_[Rank(r)].report = Report{};
    }
  }
  void plans(int64_t window) {
    Plan plan;
    plan.window = plan.state = Step(window);
    plan.holders = {{Rank(1)}, {Rank(0)}};
    copies_.on_plan(plan, roles_);
  }
  LeavingDecision decides(int32_t node, bool is_open = true, bool is_loading = false) const {
    return decide_leaving(kNow, Node(node), {roles_, nodes_, copies_, is_open, is_loading},
                          options_);
  }
  Fate fate(int32_t node, bool is_open = true, bool is_loading = false) const {
    return decides(node, is_open, is_loading).kind;
  }

  static constexpr absl::Duration kNow = absl::ZeroDuration();
  ControllerOptions options_{.nodes = 2, .spares = 1};
  RoleTable roles_{2};
  NodeTable nodes_{absl::Seconds(2)};
  CopyBook copies_{options_.strategy};
};

TEST_F(Leaving, OneThatPlaysNoRoleJustGoes) {
  nodes_.leave(Node(2));
  EXPECT_EQ(fate(2, /*is_open=*/false), Fate::kDismiss);
}

TEST_F(Leaving, WhereOthersHaveRoomItsRolesMove) {
  plans(-1);
  nodes_.leave(Node(1));
  EXPECT_EQ(fate(1), Fate::kMoveRoles);
  EXPECT_EQ(decides(1).why, "node 1 leaves");
}

// A controller that took over has not met the spare yet.
TEST_F(Leaving, WhileOthersMayComeItWaits) {
  plans(-1);
  nodes_.leave(Node(1));
  nodes_.forget(Node(2));
  const auto fate_until = [&](absl::Duration others_until) {
    return decide_leaving(kNow, Node(1), {roles_, nodes_, copies_, true, false, others_until},
                          options_)
        .kind;
  };
  EXPECT_EQ(fate_until(absl::Seconds(1)), Fate::kWait);
  EXPECT_EQ(fate_until(kNow), Fate::kDrainJob) << "nobody came";
  nodes_.join(Node(2), kNow);
  EXPECT_EQ(fate_until(absl::Seconds(1)), Fate::kMoveRoles);
  nodes_.leave(Node(2));
  EXPECT_EQ(fate_until(absl::Seconds(1)), Fate::kDrainJob) << "all are known";
}

// Silent for a moment, as on a busy machine: soon it is heard, or lost.
TEST_F(Leaving, WhileTheOnlyRoomIsOnANodeInDoubtItWaits) {
  plans(-1);
  nodes_.leave(Node(1));
  const auto fate_at = [&](absl::Duration now) {
    return decide_leaving(now, Node(1), {roles_, nodes_, copies_, true, false}, options_).kind;
  };
  EXPECT_EQ(fate_at(absl::Seconds(2)), Fate::kMoveRoles);
  EXPECT_EQ(fate_at(absl::Seconds(3)), Fate::kWait);
  nodes_.forget(Node(2));
  EXPECT_EQ(fate_at(absl::Seconds(3)), Fate::kDrainJob);
}

TEST_F(Leaving, WithoutRoomTheJobIsDrained) {
  plans(-1);
  nodes_.leave(Node(1));
  nodes_.leave(Node(2));
  EXPECT_EQ(fate(1), Fate::kDrainJob);
  EXPECT_EQ(decides(1).why, "node 1 leaves and no other can take its place: all save and end");
}

TEST_F(Leaving, WhereNobodyElseHoldsItsStateTheJobIsDrained) {
  plans(4);  // of whose window nobody has reported anything
  nodes_.leave(Node(1));
  EXPECT_EQ(fate(1), Fate::kDrainJob);
}

TEST_F(Leaving, WhoHoldsWhatIsAskedFirst) {
  nodes_.leave(Node(1));
  EXPECT_EQ(fate(1), Fate::kOpenView);
  EXPECT_EQ(decides(1).why, "node 1 leaves: who holds which copies?");
  options_.strategy = strategy_of(StrategyKind::kNone);
  EXPECT_EQ(fate(1), Fate::kDrainJob) << "nobody holds any";
}

TEST_F(Leaving, ARecoveryMayNeedWhatIsThere) {
  plans(-1);
  nodes_.leave(Node(1));
  EXPECT_EQ(fate(1, /*is_open=*/false), Fate::kWait);
  EXPECT_EQ(fate(1, /*is_open=*/true, /*is_loading=*/true), Fate::kWait);
}

TEST_F(Leaving, AtItsEndTheJobIsFasterThanAnotherView) {
  plans(-1);
  nodes_.leave(Node(1));
  for (const int32_t r : {0, 1}) roles_[Rank(r)].finished = true;
  EXPECT_EQ(fate(1), Fate::kWait);
  roles_.release_all();
  EXPECT_EQ(fate(1), Fate::kWait);
}

TEST_F(Leaving, ThoseThatPlayRolesGoFirst) {
  for (const int32_t n : {0, 1, 2}) nodes_.leave(Node(n));
  roles_.lose(Rank(0));
  EXPECT_THAT(nodes_that_leave(roles_, nodes_), ElementsAre(Node(1), Node(0), Node(2)));
}

}  // namespace
}  // namespace evermoe
