// Whom a controller takes for lost, how many losses it bears, and how it takes over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "control/controller/controller_core.h"

namespace evermoe {
namespace {

using ::testing::HasSubstr;

// A job of one stage on two nodes, and what its controller does.
class Losses : public testing::Test {
 protected:
  void begin(int lanes, int losses_max = 50) {
    lanes_ = lanes;
    ControllerOptions options;
    options.nodes = 2;
    options.losses_max = losses_max;
    core_.emplace(Topology({lanes}, 1), options, now_);
    for (const int node : {0, 1}) on(AgentJoined{Node(node)});
    come();
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
  std::vector<std::string> killed_;
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
  begin(2, /*losses_max=*/5);
  for (int i = 0; i < 6; ++i) {
    ASSERT_EQ(end_, "");
    on(WorkerEnded{Rank(0), since_[0], Node(0), "exit code 1", false, false});
    if (end_.empty()) come();
  }
  EXPECT_THAT(end_, HasSubstr("without any progress; the last: 0.0: exit code 1"));
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
    }
  }
  void joins(int rank, bool is_open) {
    MemberJoined joined;
    joined.rank = Rank(rank);
    joined.since = View(1);
    joined.newest_view = View(4);
    joined.is_open = is_open;
    on(joined);
  }

  absl::Duration now_;
  std::optional<ControllerCore> core_;
  std::vector<StartWorker> started_;
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

}  // namespace
}  // namespace evermoe
