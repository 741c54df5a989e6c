#include "recovery/member/view_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace evermoe {
namespace {

// One member's views: stop(2); open(2); ... and what the training thread is told in between.
class ViewStateTest : public testing::Test {
 protected:
  bool stop(uint32_t view) { return state_.stop(View(view)); }
  void open(uint32_t view, bool restarts = false, bool restart_all = false) {
    Plan plan;
    plan.view = View(view);
    plan.restart_all = restart_all;
    plan.base = Step(7);
    state_.open(std::make_shared<const Plan>(plan), restarts);
  }
  // View 2 opens, in which all begin at state 8 without going back, or go back from there.
  void renew() { begin_anew(true); }
  void go_back() { begin_anew(false); }
  void begin_anew(bool renews) {
    stop(2);
    Plan plan;
    plan.view = View(2);
    plan.renews = renews;
    plan.state = Step(8);
    state_.open(std::make_shared<const Plan>(plan), true);
    EXPECT_EQ(start(), "2");
  }
  // The view entered, or "wait", "restart", "over", or an error's message.
  std::string enter(uint32_t after = 0) { return told(state_.enter(View(after))); }
  std::string start() { return told(state_.start()); }
  static std::string told(const std::optional<absl::StatusOr<PlanPointer>>& answer) {
    if (!answer) return "wait";
    if (absl::IsCancelled(answer->status())) return "restart";
    if (!answer->ok()) return std::string(answer->status().message());
    return **answer == nullptr ? "over" : std::to_string((**answer)->view.value);
  }
  // A member that has begun in view 1.
  void begin() {
    stop(1);
    open(1, true, true);
    ASSERT_EQ(start(), "1");
  }

  ViewState state_;
};

TEST_F(ViewStateTest, AFreshMemberWaitsForAPlanThatLetsItBegin) {
  EXPECT_TRUE(state_.standing().is_broken) << "it waits to be told where to begin";
  EXPECT_EQ(start(), "wait");
  EXPECT_TRUE(stop(1));
  EXPECT_EQ(start(), "wait");
  open(1, true);
  EXPECT_EQ(start(), "1");
  EXPECT_FALSE(state_.standing().is_broken);
  EXPECT_EQ(state_.standing().stage_epoch, View(1));
  EXPECT_EQ(state_.standing().base, Step(7));
}

TEST_F(ViewStateTest, ANewProcessSaysFromItsFirstMomentOnThatItHasNotLoggedWhatWasSentBefore) {
  renew();
  EXPECT_EQ(state_.standing().logged_since, Step(8));
}

TEST_F(ViewStateTest, WhoTakesAStateFromOthersSaysSoUntilItIsThere) {
  renew();
  EXPECT_EQ(state_.standing().awaits_state, Step(8));
  state_.set_has_state(false, Step(-1), Step(-1));
  EXPECT_EQ(state_.standing().awaits_state, Step(8));
  state_.set_taken();
  EXPECT_EQ(state_.standing().awaits_state, Step(-1)) << "though others of its stage have not come";
}

TEST_F(ViewStateTest, WhoHasTheStateAwaitsNone) {
  begin();
  state_.set_has_state(true, Step(8), Step(-1));
  renew();
  EXPECT_EQ(state_.standing().awaits_state, Step(-1));
}

TEST_F(ViewStateTest, WhoHasTheStateKeepsItsLog) {
  begin();
  state_.set_has_state(true, Step(8), Step(-1));
  renew();
  EXPECT_EQ(state_.standing().logged_since, Step(-1));
}

TEST_F(ViewStateTest, WhoGoesBackSaysSoUntilItHasCaughtUp) {
  begin();
  EXPECT_EQ(state_.standing().catches_up_to, Step(-1)) << "it began with all";
  go_back();
  EXPECT_EQ(state_.standing().catches_up_to, Step(8)) << "from its first moment on";
  state_.set_has_state(true, Step(7), Step(-1));
  EXPECT_EQ(state_.standing().catches_up_to, Step(8));
  state_.set_has_state(true, Step(8), Step(-1));
  EXPECT_EQ(state_.standing().catches_up_to, Step(-1));
}

TEST_F(ViewStateTest, AnOldStopChangesNothing) {
  begin();
  EXPECT_TRUE(stop(3));
  EXPECT_FALSE(stop(3));
  EXPECT_FALSE(stop(2));
  EXPECT_EQ(state_.newest(), View(3));
}

TEST_F(ViewStateTest, NothingIsAcceptedFromTheStopOn) {
  begin();
  EXPECT_TRUE(state_.accepts(View(1)));
  stop(2);
  EXPECT_FALSE(state_.accepts(View(1)));
  EXPECT_FALSE(state_.accepts(View(2))) << "not open yet";
  open(2);
  EXPECT_TRUE(state_.accepts(View(2)));
  EXPECT_FALSE(state_.accepts(View(1)));
}

TEST_F(ViewStateTest, AStageThatKeepsItsRanksGoesOnInTheNextView) {
  begin();
  EXPECT_EQ(enter(), "1");
  EXPECT_EQ(enter(1), "wait");
  stop(2);
  EXPECT_EQ(enter(), "wait");
  open(2);
  EXPECT_EQ(enter(1), "2");
  EXPECT_EQ(state_.entered(), View(2));
  EXPECT_EQ(state_.standing().stage_epoch, View(1)) << "it has not begun anew";
}

TEST_F(ViewStateTest, AStageThatGoesBackBeginsAnew) {
  begin();
  stop(2);
  open(2, true);
  EXPECT_FALSE(state_.accepts(View(2)));
  EXPECT_EQ(enter(1), "restart");
  EXPECT_TRUE(state_.standing().is_broken);
  EXPECT_EQ(start(), "2");
  EXPECT_EQ(state_.standing().stage_epoch, View(2));
  EXPECT_TRUE(state_.accepts(View(2)));
}

TEST_F(ViewStateTest, ARestartIsNotForgottenWhenAnotherViewFollows) {
  begin();
  stop(2);
  open(2, true);
  stop(3);
  EXPECT_EQ(start(), "wait");
  open(3, false);
  EXPECT_EQ(enter(1), "restart");
  EXPECT_EQ(start(), "3");
}

TEST_F(ViewStateTest, WhoHasLeftItsWorkIsBrokenUnlessItHasFinished) {
  begin();
  EXPECT_EQ(start(), "wait");
  EXPECT_TRUE(state_.standing().is_broken);
  state_.set_finished();
  EXPECT_FALSE(state_.standing().is_broken);
  EXPECT_TRUE(state_.standing().is_finished);
  stop(2);
  open(2, true);
  EXPECT_FALSE(state_.standing().is_finished) << "it has to go back, though it does not know yet";
  EXPECT_EQ(start(), "2");
  EXPECT_FALSE(state_.standing().is_finished) << "its stage went back";
}

TEST_F(ViewStateTest, TheBaseOfARestartOfAllIsKnownOnlyAfterwards) {
  begin();
  EXPECT_EQ(state_.standing().base, Step(-1));
  state_.set_base(Step(4));
  EXPECT_EQ(state_.standing().base, Step(4));
}

// What it has committed is not to be taken for commits of the run that begins.
TEST_F(ViewStateTest, FromThePlanThatAllResumeUntilItHasDoneSoAMemberResumes) {
  begin();
  state_.set_base(Step(4));
  EXPECT_FALSE(state_.is_resuming());
  stop(2);
  EXPECT_FALSE(state_.is_resuming()) << "the plan may be another";
  open(2, true, true);
  EXPECT_TRUE(state_.is_resuming()) << "its training thread has not seen the plan";
  EXPECT_EQ(start(), "2");
  EXPECT_TRUE(state_.is_resuming());
  state_.set_base(Step(7));
  EXPECT_FALSE(state_.is_resuming());
  stop(3);
  open(3, true);
  EXPECT_FALSE(state_.is_resuming()) << "it goes back in memory";
}

TEST_F(ViewStateTest, TheFirstEndCounts) {
  begin();
  EXPECT_TRUE(state_.end(absl::OkStatus()));
  EXPECT_FALSE(state_.end(Corrupt("too late")));
  EXPECT_FALSE(state_.accepts(View(1)));
  EXPECT_EQ(start(), "over");
}

TEST_F(ViewStateTest, AnErrorEndsEveryWait) {
  begin();
  state_.end(Corrupt("two records"));
  EXPECT_EQ(enter(), "two records");
  EXPECT_EQ(start(), "two records");
}

TEST_F(ViewStateTest, OpeningWhatWasNotStoppedForIsABug) {
  begin();
  EXPECT_DEATH(open(2), "not stopped for");
}

}  // namespace
}  // namespace evermoe
