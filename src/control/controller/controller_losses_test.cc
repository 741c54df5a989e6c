// Whom a controller takes for lost, how many losses it bears, and how it takes over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "control/controller/controller_core.h"

namespace evermoe {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A job of one stage on two nodes, and what its controller does.
class Losses : public testing::Test {
 protected:
  void begin(int lanes, ControllerOptions options = {}) {
    lanes_ = lanes;
    options.nodes = 2;
    core_.emplace(Topology({lanes}, 1), options, now_);
    for (int node = 0; node < options.nodes + options.spares; ++node) on(AgentJoined{Node(node)});
    come();
  }
  // Rank 0 ends as soon as it is started; where it is started next, after how long.
  std::string rank_0_ends() {
    const absl::Duration ended = now_;
    on(WorkerEnded{Rank(0), since_[0], node_[0], "exit code 1", false, false});
    while (started_.empty() && end_.empty()) {
      now_ = core_->next_deadline();
      for (const int node : {0, 1, 2}) on(AgentAlive{Node(node)});
      for (int rank = 0; rank < lanes_; ++rank) on(MemberAlive{Rank(rank), since_[rank], View(1)});
      on(TimePassed{});
    }
    if (!end_.empty()) return "end";
    since_[0] = started_[0].since;
    node_[0] = started_[0].node;
    started_.clear();
    return absl::StrCat("node ", node_[0].value, " after ", absl::FormatDuration(now_ - ended));
  }
  // Everybody who was started joins and reports, until a plan is out.
  void come() {
    for (int round = 0; round < 3 && !core_->is_open(); ++round) {
      for (const StartWorker& start : std::exchange(started_, {})) {
        MemberJoined joined;
        joined.rank = start.rank;
        joined.since = since_[start.rank.value] = start.since;
        joined.node = node_[start.rank.value] = start.node;
        on(joined);
      }
      for (int rank = 0; rank < lanes_; ++rank) {
        Report report;
        report.view = core_->view();
        report.rank = Rank(rank);
        on(MemberSaid{Rank(rank), since_[rank], report});
      }
    }
    ASSERT_TRUE(core_->is_open());
  }
  void on(const ControllerEvent& event) {
    for (const ControllerAction& action : core_->on(now_, event)) {
      if (const auto* const start = std::get_if<StartWorker>(&action)) started_.push_back(*start);
      if (const auto* const kill = std::get_if<KillWorker>(&action))
        killed_.push_back(absl::StrCat(kill->rank.value, ": ", kill->why));
      if (const auto* const end = std::get_if<EndJob>(&action)) end_ = end->reason;
      if (const auto* const line = std::get_if<JobEvent>(&action)) story_.push_back(line->text);
    }
  }
  // For so long nothing is heard but of these agents, and of the workers of these nodes.
  void wait(double seconds, const std::vector<int>& agents, const std::vector<int>& nodes) {
    const absl::Duration end = now_ + absl::Seconds(seconds);
    while (now_ < end) {
      now_ += absl::Milliseconds(500);
      for (const int agent : agents) on(AgentAlive{Node(agent)});
      for (int rank = 0; rank < lanes_; ++rank) {
        if (std::count(nodes.begin(), nodes.end(), node_[rank].value) > 0)
          on(MemberAlive{Rank(rank), since_[rank], core_->view()});
      }
      on(TimePassed{});
    }
  }

  int lanes_ = 0;
  absl::Duration now_;
  std::optional<ControllerCore> core_;
  std::map<int, View> since_;
  std::map<int, Node> node_;
  std::vector<StartWorker> started_;
  std::vector<std::string> killed_, story_;
  std::string end_;
};

TEST_F(Losses, ANodeWithManyRolesIsOneLoss) {
  begin(128);
  on(AgentLost{Node(0), "its machine is gone"});
  EXPECT_EQ(end_, "");
  EXPECT_EQ(started_.size(), 64u);
  come();
}

TEST_F(Losses, LossesWithoutProgressComeToAnEnd) {
  begin(2, {.losses_max = 5});
  for (int i = 0; i < 6; ++i) {
    ASSERT_EQ(end_, "");
    on(WorkerEnded{Rank(0), since_[0], Node(0), "exit code 1", false, false});
    if (end_.empty()) come();
  }
  EXPECT_THAT(end_, HasSubstr("without any progress; the last: 0.0: exit code 1"));
}

// At 6 starts a second on the same node nothing changes for the better.
TEST_F(Losses, ARoleThatKeepsEndingWaitsAndMovesToTheSpare) {
  begin(2, {.spares = 1, .restarts_max = 6, .backoff = absl::Seconds(0.2)});
  std::vector<std::string> starts;
  for (int i = 0; i < 7; ++i) starts.push_back(rank_0_ends());
  EXPECT_THAT(starts,
              ElementsAre("node 0 after 0", "node 2 after 200ms", "node 2 after 400ms",
                          "node 2 after 800ms", "node 2 after 1.6s", "node 2 after 3.2s", "end"));
  EXPECT_THAT(
      story_,
      Contains("incident 1: worker 0.0 moves to node 2: it has ended 2 times in a row soon after "
               "its start on node 0"));
  EXPECT_THAT(
      story_,
      Contains("incident 1: worker 0.0 has ended 3 times in a row soon after its start on node 2; "
               "the next start is in 1.6s"));
}

TEST_F(Losses, WithoutSparesItSharesANodeUntilTheRestartsAreUsedUp) {
  begin(2, {.restarts_max = 3, .backoff = absl::Seconds(0.2)});
  for (const char* start : {"node 0 after 0", "node 1 after 200ms", "node 1 after 400ms", "end"})
    EXPECT_EQ(rank_0_ends(), start);
  EXPECT_EQ(end_,
            "given up after 3 restarts in a row of worker 0.0 without progress beyond step 0 "
            "(run.restarts_max); the last failure: exit code 1");
}

// What its machine has computed may be wrong (train/step/examination.h).
TEST_F(Losses, ARoleWhoseMachineIsInDoubtMovesAndTheNodeIsQuarantined) {
  begin(2, {.spares = 1});
  on(WorkerEnded{Rank(0), since_[0], Node(0), "exit code 1: not finite", false, false, false,
                 true});
  EXPECT_TRUE(core_->is_quarantined(Node(0)));
  ASSERT_EQ(started_.size(), 1u);
  EXPECT_EQ(started_[0].node, Node(2)) << "the first time already";
  EXPECT_THAT(story_, Contains("incident 1: node 0 is quarantined: exit code 1: not finite"));
  EXPECT_THAT(story_, Contains("incident 1: worker 0.0 moves to node 2: node 0 is quarantined"));
  come();
  on(MemberSaid{Rank(0), since_[0],
                Examined{Rank(0), Step(3), 0, false, "the machine was at fault"}});
  EXPECT_THAT(story_, Contains("node 0 stays quarantined: the machine was at fault"));
  EXPECT_TRUE(core_->is_quarantined(Node(0)));
  // Node 1 takes one that it has no room for before node 0 gets a role again.
  on(WorkerEnded{Rank(0), since_[0], Node(2), "killed", false, false});
  on(AgentLost{Node(2), "gone"});
  ASSERT_FALSE(started_.empty());
  EXPECT_EQ(started_.back().node, Node(1));
}

TEST_F(Losses, ANodeIsTrustedAgainWhenTheSamplesAreAtFault) {
  begin(2, {.spares = 1});
  on(WorkerEnded{Rank(0), since_[0], Node(0), "exit code 1: not finite", false, false, false,
                 true});
  come();
  on(MemberSaid{Rank(0), since_[0],
                Examined{Rank(0), Step(3), 0, true, "the samples are at fault"}});
  EXPECT_FALSE(core_->is_quarantined(Node(0)));
  EXPECT_THAT(story_, Contains("node 0 is not quarantined: the samples are at fault"));
}

TEST_F(Losses, ANodeInDoubtKeepsItsRoleWhereNoOtherHasRoom) {
  begin(2);
  on(WorkerEnded{Rank(0), since_[0], Node(0), "exit code 1: not finite", false, false, false,
                 true});
  ASSERT_EQ(started_.size(), 1u);
  EXPECT_EQ(started_[0].node, Node(0));
  EXPECT_TRUE(core_->is_quarantined(Node(0)));
}

// Only the new controller knows of the examination.
TEST_F(Losses, ADoubtThatAFormerControllerHeardOfIsTakenUp) {
  begin(2, {.spares = 1});
  on(MemberSaid{Rank(1), since_[1],
                Examined{Rank(1), Step(3), 0, false, "the machine was at fault"}});
  EXPECT_TRUE(core_->is_quarantined(Node(0)));
}

// Each of several is in its own right, however many fail in one recovery.
TEST_F(Losses, RestartsOfDifferentRolesAreNotAddedUp) {
  begin(8, {.restarts_max = 1});
  for (int rank = 0; rank < 8; ++rank) {
    on(WorkerEnded{Rank(rank), since_[rank], node_[rank], "exit code 1", false, false});
    come();
  }
  EXPECT_EQ(end_, "");
}

TEST_F(Losses, AWorkerThatIsSilentWhileItsAgentSpeaksIsHung) {
  begin(2);
  wait(6, {0, 1}, {1});
  ASSERT_EQ(killed_.size(), 1u);
  EXPECT_THAT(killed_[0], HasSubstr("0: hung: no sign of life for 5s"));
}

// What is silent then is the line. If it stays so the agent is lost, and that is for others to find
// out.
TEST_F(Losses, NobodyIsHungBecauseHisAgentIsNotHeard) {
  begin(2);
  wait(8, {1}, {1});
  EXPECT_TRUE(killed_.empty()) << killed_[0];
  EXPECT_TRUE(core_->is_open());
  wait(8, {0, 1}, {0, 1});
  EXPECT_TRUE(killed_.empty()) << killed_[0];
}

// It may be lost, and what is started there with it.
TEST_F(Losses, ARoleIsNotStartedOnANodeThatIsNotHeard) {
  for (const bool comes_back : {true, false}) {
    begin(2);
    wait(4, {0}, {0});
    Trouble trouble;
    trouble.view = core_->view();
    trouble.rank = Rank(0);
    trouble.accused = Rank(1);
    on(MemberSaid{Rank(0), since_[0], trouble});
    wait(1, {0}, {0});
    ASSERT_EQ(killed_.size(), 1u);
    EXPECT_TRUE(started_.empty());
    on(comes_back ? ControllerEvent(AgentAlive{Node(1)}) : AgentLost{Node(1), "no sign of life"});
    ASSERT_EQ(started_.size(), 1u);
    EXPECT_EQ(started_[0].node, Node(comes_back ? 1 : 0));
    killed_.clear();
    started_.clear();
  }
}

// ---- a controller that takes over

// What a member has been in when it finds the next controller.
struct Past {
  View view, run;
  MembershipHistory lanes = {};
  int64_t newest = 8;
};

class TakesOver : public testing::Test {
 protected:
  TakesOver() {
    ControllerOptions options;
    options.takes_over = true;
    options.views_after = View(1000);
    core_.emplace(Topology({3}, 1), options, now_);
    on(AgentJoined{Node(0)});
  }
  void on(const ControllerEvent& event) {
    for (const ControllerAction& action : core_->on(now_, event)) {
      if (const auto* const start = std::get_if<StartWorker>(&action)) started_.push_back(*start);
      const auto* const order = std::get_if<SendOrder>(&action);
      if (order != nullptr && std::holds_alternative<StopOrder>(order->message))
        stopped_.push_back(order->rank.value);
      if (const auto* const kill = std::get_if<KillWorker>(&action))
        killed_.push_back(kill->rank.value);
    }
  }
  void joins(int rank, bool is_open, const Past& past = {View(4), View(0)}) {
    MemberJoined joined;
    joined.rank = Rank(rank);
    joined.since = View(1);
    joined.newest_view = past.view;
    joined.run = past.run;
    joined.is_open = is_open;
    joined.lanes = past.lanes;
    if (is_open) joined.newest = verdict_commit(Step(past.newest));
    on(joined);
  }

  absl::Duration now_;
  std::optional<ControllerCore> core_;
  std::vector<StartWorker> started_;
  std::vector<int32_t> stopped_, killed_;
};

// Some may be in a view that a former controller opened, and cannot be heard.
TEST_F(TakesOver, ItsViewsAreNewerThanAllBeforeEvenIfItHasMetNobody) {
  now_ += absl::Seconds(3);
  on(AgentAlive{Node(0)});
  EXPECT_EQ(core_->view(), View(1001));
  ASSERT_EQ(started_.size(), 3u);
  EXPECT_EQ(started_[0].since, View(1001)) << "nor has its process been in one of them";
}

TEST_F(TakesOver, AndNewerThanThoseItHears) {
  for (const int rank : {0, 1}) joins(rank, true);
  now_ += absl::Seconds(3);
  on(TimePassed{});
  EXPECT_EQ(core_->view(), View(1001));
}

TEST_F(TakesOver, AViewThatAllAreInGoesOn) {
  for (const int rank : {0, 1, 2}) joins(rank, true);
  EXPECT_EQ(core_->view(), View(4));
  EXPECT_TRUE(core_->is_open());
}

// It had begun view 5 and started a successor, and only that one had heard of it.
TEST_F(TakesOver, ALateSuccessorOfTheFormerControllersMeetsAllInTheNextView) {
  for (const int rank : {0, 1, 2}) joins(rank, true);
  MemberJoined successor;
  successor.rank = Rank(2);
  successor.since = successor.newest_view = View(5);
  on(successor);
  EXPECT_EQ(core_->view(), View(1001));
  EXPECT_FALSE(core_->is_open());
  EXPECT_THAT(stopped_, ElementsAre(0, 1, 2));
}

// Of two hosts one had not known yet that it had lost the job, and had begun it anew.
TEST_F(TakesOver, OfTwoRunsTheOneOfTheNewestViewsGoesOn) {
  joins(0, true, {.view = View(1003), .run = View(2)});
  joins(1, true, {.view = View(1003), .run = View(2)});
  joins(2, true, {.view = View(5), .run = View(5)});
  EXPECT_THAT(killed_, ElementsAre(2));
  EXPECT_FALSE(core_->is_open());
  EXPECT_THAT(stopped_, ElementsAre(0, 1));
}

// One has not come to the change yet. The other one's host knew nothing of it, and has none.
TEST_F(TakesOver, OfTwoHistoriesOfLanesTheOneOfTheNewestViewsGoesOn) {
  const MembershipHistory changed = {{.step = Step(7), .resting = {Rank(1)}, .view = View(1002)}};
  joins(0, true, {.view = View(1003), .run = View(2), .lanes = changed});
  joins(1, true, {.view = View(1003), .run = View(2), .newest = 6});
  joins(2, true, {.view = View(5), .run = View(2)});
  EXPECT_THAT(killed_, ElementsAre(2));
  EXPECT_THAT(stopped_, ElementsAre(0, 1));
}

// One role was replaced by the former controller, which did not live to tell; one by this.
TEST_F(TakesOver, WhatTheFormerControllerFoundOutBelongsToTheIncident) {
  joins(0, true);
  joins(1, false);
  now_ += absl::Seconds(3);
  on(AgentAlive{Node(0)});
  ASSERT_EQ(started_.size(), 1u);
  MemberJoined fresh;
  fresh.rank = Rank(2);
  fresh.since = started_[0].since;
  on(fresh);
  for (const int rank : {0, 1, 2}) {
    Report report;
    report.view = core_->view();
    report.rank = Rank(rank);
    if (rank == 0) report.stage_epoch = View(4);
    if (rank == 0) report.newest = verdict_commit(Step(8));
    on(MemberSaid{Rank(rank), rank == 2 ? fresh.since : View(1), report});
  }
  ASSERT_EQ(core_->recoveries().size(), 1u);
  EXPECT_THAT(core_->recoveries()[0].causes,
              ElementsAre("0.2: gone when the new controller came",
                          "0.1: replaced when the new controller came"));
}

// It has to sleep until then, not to spin.
TEST_F(TakesOver, ASuspicionInAViewThatTurnsOutNotToBeOpenIsNotDue) {
  joins(0, true);
  Trouble trouble;
  trouble.view = View(4);
  trouble.rank = Rank(0);
  trouble.accused = Rank(2);
  on(MemberSaid{Rank(0), View(1), trouble});
  joins(1, false);
  now_ += absl::Seconds(1);
  on(TimePassed{});
  EXPECT_EQ(core_->next_deadline(), absl::Seconds(2)) << "the end of the adoption";
}

// Agents may be calling where the former host was.
TEST(TakesOverFromAHost, WaitsLongerWhileMoreThanOneNodeIsMissing) {
  ControllerOptions options;
  options.takes_over = true;
  options.nodes = 3;
  options.find_max = absl::Seconds(12);
  ControllerCore core(Topology({3}, 1), options, absl::ZeroDuration());
  core.on(absl::ZeroDuration(), AgentJoined{Node(0)});
  EXPECT_TRUE(core.on(absl::Seconds(3), AgentAlive{Node(0)}).empty());
  EXPECT_EQ(core.next_deadline(), absl::Seconds(12));
  EXPECT_FALSE(core.on(absl::Seconds(4), AgentJoined{Node(1)}).empty())
      << "the one that is missing was the host's";
}

}  // namespace
}  // namespace evermoe
