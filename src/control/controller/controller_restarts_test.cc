// How often a controller starts a job again, and what counts as progress; and what it makes of
// members that register again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "control/controller/controlled_job_testing.h"

namespace evermoe {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

using Job = ControlledJob;

Job restarted_job() { return Job(Job::unprotected()); }

TEST(ControllerRestarts, RestartsWithoutProgressAreLimited) {
  Job job = restarted_job();
  job.begins().commits(1, 5);
  for (int i = 0; i < 3; ++i) job.worker(0).dies().wait(1).commits(1, 5);
  job.did();
  job.worker(0).dies("exit code 1: the disk is full");
  EXPECT_EQ(job.did(), "kill 0.1, kill 1.0, kill 1.1, fail");
  EXPECT_EQ(job.end().reason,
            "given up after 3 restarts in a row without progress beyond step 5 (run.restarts_max); "
            "the last failure: "
            "worker 0.0: exit code 1: the disk is full");
  EXPECT_EQ(job.recovery().restarts, 3);
}

TEST(ControllerRestarts, DifferentWorkersThatDieInTurnsAreLimitedTogether) {
  Job job = restarted_job();
  job.begins().commits(1, 5);
  for (int i = 0; i < 3; ++i) job.worker(i).dies().wait(1).commits(1, 3);
  job.worker(3).dies();
  EXPECT_TRUE(job.has_ended());
}

// Nobody comes so far that there could be a plan.
TEST(ControllerRestarts, AWorkerThatDiesAtOnceIsGivenUp) {
  Job job = restarted_job();
  for (int i = 0; i < 4; ++i) job.worker(1).dies("cannot be started: no such file").wait(1);
  EXPECT_TRUE(job.has_ended());
  EXPECT_THAT(job.end().reason, HasSubstr("given up after 3 restarts in a row"));
  EXPECT_THAT(job.end().reason, HasSubstr("worker 0.1: cannot be started: no such file"));
}

TEST(ControllerRestarts, ProgressForgivesEarlierRestarts) {
  Job job = restarted_job();
  job.begins();
  for (int i = 1; i <= 20; ++i) job.commits(1, i).worker(0).dies().wait(1);
  EXPECT_FALSE(job.has_ended()) << job.end().reason;
}

TEST(ControllerRestarts, ANewerCheckpointIsProgressToo) {
  Job job = restarted_job();
  job.begins().commits(1, 30);
  for (int i = 1; i <= 20; ++i) job.worker(0).dies().saves(i).wait(1).commits(i + 1, i + 1);
  EXPECT_FALSE(job.has_ended()) << job.end().reason;
}

TEST(ControllerRestarts, TheSameCheckpointIsNone) {
  Job job = restarted_job();
  job.begins().commits(1, 30).saves(20);
  for (int i = 1; i <= 4; ++i) job.worker(0).dies().wait(1).commits(21, 25);
  EXPECT_TRUE(job.has_ended());
}

TEST(ControllerRestarts, BackOffDoubles) {
  Job job = restarted_job();
  job.begins().commits(1, 5);
  std::vector<double> delays;
  for (int i = 0; i < 3; ++i) {
    job.worker(0).dies();
    delays.push_back(absl::ToDoubleSeconds(job.core().next_deadline()) - job.now());
    job.wait(1);
  }
  EXPECT_THAT(delays, ::testing::Pointwise(::testing::DoubleNear(1e-6), {0.2, 0.4, 0.8}));
}

TEST(ControllerRestarts, WithoutRestartsTheFirstFailureIsTheLast) {
  ControllerOptions options = Job::unprotected();
  options.restarts_max = 0;
  Job job(options);
  job.begins().did();
  job.worker(0).dies();
  EXPECT_EQ(job.did(), "kill 0.1, kill 1.0, kill 1.1, fail");
}

// A broken connection between live workers, again and again.
TEST(ControllerRestarts, RestartsWithoutALossAreLimitedToo) {
  Job job = restarted_job();
  job.begins().commits(1, 5).did();
  job.worker(0).breaks_off().wait(1);
  EXPECT_EQ(job.did(), "restart all in view 2");
  for (int i = 0; i < 3; ++i) job.commits(1, 5).worker(0).breaks_off().wait(1);
  EXPECT_TRUE(job.has_ended());
  EXPECT_THAT(job.end().reason, HasSubstr("given up after 3 restarts in a row"));
}

// ---- members that register again, after a line was broken or with the next controller

// A job of one stage on one node, and whom its controller stops.
class Returns : public testing::Test {
 protected:
  static constexpr int kWorkers = 4;

  void controller(ControllerOptions options) {
    core_.emplace(Topology({kWorkers}, 1), options, now_);
    end_.reset();
    on(AgentJoined{Node(0)});
  }
  // The first view is open.
  void begin(ControllerOptions options = {}) {
    controller(options);
    for (int rank = 0; rank < kWorkers; ++rank) joins(rank, View(0));
    for (int rank = 0; rank < kWorkers; ++rank) reports(rank);
    ASSERT_TRUE(core_->is_open());
    stops_.clear();
  }
  void joins(int rank, View newest_view) { on(member(rank, newest_view, false)); }
  void is_back(int rank, View open_view) { on(member(rank, open_view, true)); }
  void is_back_finished(int rank, View open_view, Step step) {
    MemberJoined joined = member(rank, open_view, true);
    joined.has_finished = true;
    joined.newest = closing_commit(step, 1);
    on(joined);
  }
  void reports(int rank) {
    Report report;
    report.view = core_->view();
    report.rank = Rank(rank);
    on(MemberSaid{Rank(rank), since_[rank], report});
  }
  void ends(int rank, bool is_clean = false) {
    on(WorkerEnded{Rank(rank), since_[rank], Node(0), "exit", is_clean, false, false});
  }

  std::optional<ControllerCore> core_;
  std::vector<std::string> stops_;  // "rank for view"
  std::vector<int> stays_;          // ranks that are not to leave
  std::optional<EndJob> end_;

 private:
  MemberJoined member(int rank, View newest_view, bool is_open) {
    MemberJoined joined;
    joined.rank = Rank(rank);
    joined.since = since_.try_emplace(rank, View(1)).first->second;
    joined.newest_view = newest_view;
    joined.is_open = is_open;
    return joined;
  }
  void on(const ControllerEvent& event) {
    for (const ControllerAction& action : core_->on(now_, event)) {
      if (const auto* const start = std::get_if<StartWorker>(&action))
        since_[start->rank.value] = start->since;
      if (const auto* const end = std::get_if<EndJob>(&action)) end_ = *end;
      const auto* const order = std::get_if<SendOrder>(&action);
      if (order == nullptr) continue;
      if (const auto* const stop = std::get_if<StopOrder>(&order->message))
        stops_.push_back(absl::StrCat(order->rank.value, " for ", stop->view.value));
      if (const auto* const leave = std::get_if<LeaveOrder>(&order->message);
          leave && leave->is_off)
        stays_.push_back(order->rank.value);
    }
  }

  absl::Duration now_ = absl::Seconds(100);
  std::map<int, View> since_;
};

// When a switch has failed thousands are back at once. A view for each of them, in which all the
// others are stopped, would be the square of that.
TEST_F(Returns, WhoIsBackWhileAViewOpensIsStoppedForThatViewAgain) {
  begin();
  ends(0);
  ASSERT_EQ(core_->view(), View(2));
  stops_.clear();
  for (const int rank : {1, 2, 3}) is_back(rank, View(1));
  EXPECT_EQ(core_->view(), View(2));
  EXPECT_THAT(stops_, ElementsAre("1 for 2", "2 for 2", "3 for 2"));
  joins(0, View(0));
  for (int rank = 0; rank < kWorkers; ++rank) reports(rank);
  EXPECT_TRUE(core_->is_open());
  EXPECT_EQ(core_->view(), View(2));
}

// It does not report twice for one view.
TEST_F(Returns, WhoseReportWasLostReportsForTheNextView) {
  begin();
  ends(0);
  is_back(1, View(1));
  joins(1, View(2));
  EXPECT_EQ(core_->view(), View(3));
}

// ---- what was lost with a line, or with a controller

// Roles that have handed over wait for a switch, of which the next controller does not know.
TEST_F(Returns, WhomAFormerControllerToldToLeaveStays) {
  ControllerOptions options;
  options.takes_over = true;
  options.views_after = View(1000);
  controller(options);
  for (int rank = 0; rank < kWorkers; ++rank) is_back(rank, View(4));
  EXPECT_THAT(stays_, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(core_->view(), View(4)) << "and the view goes on";
  stays_.clear();
  is_back(2, View(4));
  EXPECT_THAT(stays_, IsEmpty()) << "by this controller's order it leaves";
}

// A controller that dies while its plan goes out leaves processes that wait for it.
TEST_F(Returns, WhereSomebodyHasNoPlanOfTheViewTheNextControllerOpensAnother) {
  ControllerOptions options;
  options.takes_over = true;
  options.views_after = View(1000);
  for (const View has : {View(4), View(3)}) {
    SCOPED_TRACE(has.value);
    controller(options);
    if (has == View(4))
      joins(0, has);
    else
      is_back(0, has);
    for (const int rank : {1, 2, 3}) is_back(rank, View(4));
    EXPECT_EQ(core_->view(), View(1001));
    EXPECT_FALSE(core_->is_open());
  }
}

// The controller before died when the processes were there, and before it had opened a view.
TEST_F(Returns, WhereNobodyHasHeardOfAnyViewTheNextControllerOpensOne) {
  ControllerOptions options;
  options.takes_over = true;
  options.views_after = View(1000);
  controller(options);
  for (int rank = 0; rank < kWorkers; ++rank) joins(rank, View(0));
  EXPECT_EQ(core_->view(), View(1001));
  EXPECT_THAT(stops_, ElementsAre("0 for 1001", "1 for 1001", "2 for 1001", "3 for 1001"));
}

TEST_F(Returns, NobodyIsToldToStayWhereTheJobBegins) {
  begin();
  EXPECT_THAT(stays_, IsEmpty());
}

TEST_F(Returns, ADrainedJobIsNotTakenForFinishedByTheNextController) {
  for (const int64_t step : {30, 59, 60}) {
    SCOPED_TRACE(step);
    ControllerOptions options;
    options.takes_over = true;
    options.views_after = View(1000);
    options.steps = Step(60);
    controller(options);
    for (int rank = 0; rank < kWorkers; ++rank) is_back_finished(rank, View(4), Step(step));
    for (int rank = 0; rank < kWorkers; ++rank) ends(rank, /*is_clean=*/true);
    ASSERT_TRUE(end_ && end_->ok);
    EXPECT_EQ(end_->is_drained, step < 60);
  }
}

TEST_F(Returns, NorWhereThatWasLostOnTheWay) {
  begin({.steps = Step(60)});
  for (int rank = 0; rank < kWorkers; ++rank) is_back_finished(rank, View(1), Step(30));
  for (int rank = 0; rank < kWorkers; ++rank) ends(rank, /*is_clean=*/true);
  ASSERT_TRUE(end_ && end_->ok);
  EXPECT_TRUE(end_->is_drained);
}

// ---- a node whose workers reach nobody, though its agent is heard; role r plays on node r

ControllerOptions on_five_machines() {
  ControllerOptions options;
  options.nodes = 4;
  options.spares = 1;
  options.others_wait = absl::Seconds(3);
  return options;
}

TEST(UnreachedNode, OnlyItsRolesMoveAndToTheSpare) {
  ControlledJob job(on_five_machines());
  job.begins().commits(1, 3).worker(3).accuses(1).worker(1).accuses(0).wait(0.4);
  job.worker(0).accuses(1).did();
  job.wait(0.2);
  ASSERT_THAT(job.did(), StartsWith("kill 0.1, start 0.1 on 4, "));
  EXPECT_THAT(job.recovery().roles, ElementsAre("0.1"));
  EXPECT_THAT(job.said(), HasSubstr("the workers of node 1 and those of nodes 0 and 3 do not"));
}

TEST(UnreachedNode, WhatIsSaidAfterItsProcessWasReplacedCounts) {
  ControlledJob job(on_five_machines());
  job.begins().commits(1, 3).worker(3).accuses(1).wait(3.2);
  EXPECT_THAT(job.recovery().roles, ElementsAre("0.1"));
  job.did();
  job.worker(1).accuses(0).wait(0.8);
  ASSERT_THAT(job.did(), StartsWith("kill 0.1, start 0.1 on 4, "));
  EXPECT_THAT(job.recovery().roles, Each("0.1"));
}

TEST(UnreachedNode, OfTwoThatOnlyComplainOfEachOtherOneIsReplacedAndThenMoves) {
  ControlledJob job(on_five_machines());
  job.begins().commits(1, 3).did();
  job.worker(2).accuses(0).wait(2.9);
  EXPECT_EQ(job.did(), "") << "others may complain, too";
  job.wait(0.3);
  ASSERT_THAT(job.did(), StartsWith("kill 0.0, start 0.0, "));
  job.worker(2).accuses(0).wait(3.2);
  ASSERT_THAT(job.did(), StartsWith("kill 0.0, start 0.0 on 4, "));
}

TEST(UnreachedNode, ADeathThatIsKnownIsNoMatterOfNetworks) {
  ControlledJob job(on_five_machines());
  job.begins().commits(1, 3).worker(0).accuses(1).worker(0).accuses(3);
  job.worker(1).dies().worker(3).dies().did();
  job.worker(2).accuses(0).wait(0.8);
  EXPECT_THAT(job.said(), Not(HasSubstr("do not reach each other")));
}

// No commit has shown since that the network is well again.
TEST(UnreachedNode, WhoHangsIsFoundWhateverWasSaidOfNetworksBefore) {
  ControllerOptions options = on_five_machines();
  options.spares = 0;
  options.step_max = absl::Seconds(2);
  options.probe_min = absl::Seconds(1);
  ControlledJob job(options);
  job.begins().commits(1, 3).worker(3).accuses(1).worker(0).accuses(1).wait(2).did();
  job.worker(2).hangs().wait(8);
  EXPECT_THAT(job.did(), HasSubstr("kill 1.0, start 1.0"));
  EXPECT_THAT(job.recovery().roles, testing::Contains("1.0"));
}

// Nobody else has room: it is started there again, each time later, and then shares a node.
TEST(UnreachedNode, WithoutASpareItWaitsAndThenSharesANode) {
  ControllerOptions options = on_five_machines();
  options.spares = 0;
  options.backoff = absl::Seconds(1);
  ControlledJob job(options);
  job.begins().commits(1, 3);
  for (int again = 0; again < 3; ++again) {
    job.worker(3).accuses(1).worker(0).accuses(1).wait(0.6);
    EXPECT_THAT(job.recovery().roles, Each("0.1"));
    EXPECT_THAT(job.core().roles().played_on(Node(0)), ElementsAre(Rank(0)));
    job.wait(again == 0 ? 0.1 : 8);
  }
  EXPECT_THAT(job.said(), HasSubstr("worker 0.1 was not reached by others on node 1; the next "
                                    "start is in 2s"));
  EXPECT_THAT(job.core().roles().played_on(Node(0)), ElementsAre(Rank(0), Rank(1)));
}

}  // namespace
}  // namespace evermoe
