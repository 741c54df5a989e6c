// Roles that share a node because another one was lost, when that is there again.
#include "control/controller/moves/crowded_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/controller/controlled_job_testing.h"

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// ---- which roles go where

// Six roles on three nodes at the start, and a spare.
class CrowdedNodes : public testing::Test {
 protected:
  CrowdedNodes() {
    for (const int node : {0, 1, 2, 3}) nodes_.join(Node(node), absl::ZeroDuration());
  }
  void plays(int node, const std::vector<int>& ranks) {
    for (const int rank : ranks) {
      roles_.start(Rank(rank), Node(node), View(1), absl::InfiniteDuration());
      roles_.join(
          MemberJoined{.rank = Rank(rank), .since = View(1), .node = Node(node), .address = "a"},
          absl::ZeroDuration());
    }
  }
  std::string relief() const {
    const Relief relief = relieve_crowded_nodes(absl::ZeroDuration(), {.roles = roles_,
                                                                       .nodes = nodes_,
                                                                       .restarts = restarts_,
                                                                       .resting = resting_,
                                                                       .slow = slow_,
                                                                       .nodes_at_start = 3});
    std::string text;
    for (const RoleMove& move : relief.moves)
      absl::StrAppend(&text, text.empty() ? "" : ", ", move.rank.value, " to ", move.node.value);
    return text;
  }

  RoleTable roles_{6};
  NodeTable nodes_{absl::Seconds(1)};
  const ControllerOptions options_;
  RoleRestarts restarts_{6, options_};
  RestingRoles resting_;
  std::set<Node> slow_;
};

TEST_F(CrowdedNodes, WhereEachPlaysItsShareNobodyMoves) {
  plays(0, {0, 1});
  plays(1, {2, 3});
  plays(2, {4, 5});
  EXPECT_EQ(relief(), "") << "a spare stays one";
}

TEST_F(CrowdedNodes, RolesGoBackToWhereTheyBegan) {
  plays(0, {0, 1, 4});
  plays(1, {2, 3, 5});
  EXPECT_EQ(relief(), "4 to 2, 5 to 2");
  nodes_.lose(Node(2));
  EXPECT_EQ(relief(), "4 to 3, 5 to 3");
}

TEST_F(CrowdedNodes, ANodeIsFilledUpToItsShare) {
  plays(0, {0, 1, 2, 3, 4, 5});
  nodes_.lose(Node(1));
  nodes_.lose(Node(3));
  EXPECT_EQ(relief(), "4 to 2, 5 to 2") << "and node 0 keeps two more";
  nodes_.join(Node(3), absl::ZeroDuration());
  EXPECT_EQ(relief(), "2 to 3, 3 to 3, 4 to 2, 5 to 2");
}

TEST_F(CrowdedNodes, NoneGoesWhereSomethingIsWrong) {
  plays(0, {0, 1, 4});
  plays(1, {2, 3, 5});
  slow_ = {Node(2)};
  EXPECT_EQ(relief(), "4 to 3, 5 to 3");
  nodes_.doubt(Node(3), "a checksum");
  EXPECT_EQ(relief(), "");
  slow_.clear();
  for (int i = 0; i < RoleRestarts::kEarlyEndsMax; ++i) {
    restarts_.on_start(absl::ZeroDuration(), Rank(4), Node(2));
    restarts_.on_loss(absl::ZeroDuration(), Rank(4), /*with_node=*/false);
  }
  EXPECT_EQ(relief(), "") << "a role keeps ending there";
}

TEST_F(CrowdedNodes, RolesThatRestStay) {
  plays(0, {0, 1, 4});
  plays(1, {2, 3, 5});
  resting_ = {Rank(4)};
  EXPECT_EQ(relief(), "0 to 3, 5 to 2");
}

// ---- in a job

ControllerOptions on_two_full_nodes() {
  ControllerOptions options;
  options.nodes = 2;
  options.steps = Step(10'000);
  options.elastic.grow_wait = absl::Seconds(5);
  options.backoff_max = absl::Seconds(30);
  return options;
}

// Node 1 of two was lost, and node 0 plays all four roles.
struct JobOnOneNode : ControlledJob {
  explicit JobOnOneNode(const ControllerOptions& how = on_two_full_nodes()) : ControlledJob(how) {
    begins().commits(1, 5).loses_node(1).wait(1).commits(6, 9).did();
  }
};

const MoveRecord& newest_relief(const ControlledJob& job) { return job.core().moves().back(); }

TEST(Relief, ALostNodeThatIsThereAgainGetsItsRolesBackWhileTheJobTrains) {
  JobOnOneNode job;
  job.commits(10, 100);
  EXPECT_EQ(job.did(), "");
  job.node_comes(1).commits(101, 140);
  EXPECT_EQ(job.did(), "") << "others may come with it";
  job.commits(141, 160);
  EXPECT_EQ(job.did(), "keep 2 on 1");
  job.node_keeps(1, 0, 2).commits(161, 161).hand_over({2, 3}).wait(0.1);
  EXPECT_THAT(job.did(), HasSubstr("start 1.0 on 1, start 1.1 on 1, go on in view 3"));
  job.commits(172, 172);
  ASSERT_THAT(job.core().moves(), SizeIs(1));
  EXPECT_EQ(newest_relief(job).state, MoveRecord::State::kDone);
  EXPECT_EQ(newest_relief(job).cause, "node 1 has room");
  job.commits(173, 300);
  EXPECT_EQ(job.did(), "") << "all is well";
  EXPECT_THAT(job.core().recoveries(), SizeIs(1)) << "of the loss";
}

TEST(Relief, OneThatIsCalledOffIsTriedAgainLater) {
  JobOnOneNode job;
  job.node_comes(1).commits(10, 70);
  EXPECT_EQ(job.did(), "keep 2 on 1");
  job.loses_node(1).wait(0.1);
  ASSERT_THAT(job.core().moves(), SizeIs(1));
  EXPECT_EQ(newest_relief(job).state, MoveRecord::State::kCalledOff);
  job.did();
  job.node_comes(1).commits(71, 130);
  EXPECT_EQ(job.did(), "keep 2 on 1") << "one that has come since is another matter";
  for (int i = 0; i < 6; ++i) job.node_keeps(1, 0, 0, "killed by signal 9 (Killed)");
  job.wait(0.1);
  ASSERT_THAT(job.core().moves(), SizeIs(2)) << job.said();
  EXPECT_EQ(newest_relief(job).state, MoveRecord::State::kCalledOff) << job.said();
  const double asked = absl::ToDoubleSeconds(newest_relief(job).asked);
  job.did();
  int64_t step = 131;
  while (job.core().moves().size() == 2u && step < 2000) {
    job.commits(step, step);
    ++step;
  }
  EXPECT_NEAR(job.now() - asked, 30, 1);
}

TEST(Relief, NotWhereTheJobIsNearlyDone) {
  ControllerOptions options = on_two_full_nodes();
  options.steps = Step(120);
  JobOnOneNode job(options);
  job.node_comes(1).commits(10, 110);
  EXPECT_THAT(job.core().moves(), IsEmpty());
}

TEST(Relief, NorWhereNothingIsKeptInMemory) {
  ControllerOptions options = on_two_full_nodes();
  options.strategy = strategy_of(StrategyKind::kCheckfreq);
  JobOnOneNode job(options);
  job.node_comes(1).commits(10, 110);
  EXPECT_THAT(job.core().moves(), IsEmpty());
}

// The process of the role is killed over and over on node 1, and node 0 is full: it goes there, and
// not back.
TEST(Relief, ARoleDoesNotGoBackToWhereItKeptEnding) {
  ControlledJob job(on_two_full_nodes());
  job.begins().commits(1, 5);
  for (int i = 0; i < 3; ++i) job.worker(2).dies().wait(2);
  job.commits(6, 200);
  EXPECT_THAT(job.said(), HasSubstr("worker 1.0 moves to node 0: it has ended 2 times in a row"));
  EXPECT_THAT(job.core().roles().played_on(Node(0)), ElementsAre(Rank(0), Rank(1), Rank(2)));
  EXPECT_THAT(job.core().moves(), IsEmpty());
}

}  // namespace
}  // namespace evermoe
