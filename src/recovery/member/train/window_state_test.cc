#include "recovery/member/train/window_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recovery/member/restore/state_before_rollback.h"
#include "recovery/rank_testing.h"

namespace evermoe {
namespace {

TEST(WindowStateTest, FollowsTheRuleOfTheRecords) {
  TallyTrainer trainer({.operators = 4});
  WindowState window(trainer, {});
  window.begin_run({Step(0), 2, 2});
  EXPECT_EQ(window.schedule().slots(), 2);
  window.follow({Step(4), 4, 5});
  EXPECT_EQ(window.schedule().rule(), (WindowRule{Step(4), 4, 5}));
  EXPECT_EQ(window.schedule().time_of(Step(6)), (SlotTime{Step(4), 2}));
  EXPECT_EQ(window.schedule().time_of(Step(8)), std::nullopt)
      << "the fifth step of the period captures nothing";
}

TEST(WindowStateTest, ThePositionOfOneRankIsThatOfAnother) {
  TallyTrainer here({}), there({});
  ASSERT_TRUE(here.restore_base(Step(5)).ok());
  WindowState captured(here, {}), restored(there, {});
  captured.begin_run({Step(0), 3, 3});
  restored.begin_run({Step(0), 3, 3});
  ASSERT_TRUE(restored.take_position(captured.position()).ok());
  EXPECT_EQ(there.step(), Step(5));
  EXPECT_TRUE(restored.compare_position(captured.position()).ok());
}

TEST(WindowStateTest, AnotherPositionIsAContradiction) {
  TallyTrainer trainer({});
  WindowState window(trainer, {});
  window.begin_run({Step(0), 3, 3});
  RecordBytes other = window.position();
  other.back() ^= std::byte{1};
  EXPECT_TRUE(is_contradiction(window.compare_position(other)));
  EXPECT_FALSE(is_contradiction(window.take_position(std::span(other).first(3))))
      << "that is no position at all";
  EXPECT_TRUE(absl::IsDataLoss(window.take_position(std::span(other).first(3))));
}

class StateBeforeRollbackTest : public testing::Test {
 protected:
  StateBeforeRollbackTest() { trainer_.masters = trainer_.compute = {10, 20, 30}; }
  TallyTrainer trainer_{{}};
  Witnesses witnesses_;
  StateBeforeRollback before_{trainer_, 4, witnesses_};  // an operator is read in several parts
};

TEST_F(StateBeforeRollbackTest, TheSameBitsAreVerifiedOnce) {
  before_.note();
  EXPECT_TRUE(*before_.compare());
  EXPECT_FALSE(*before_.compare()) << "there is nothing left to compare with";
}

TEST_F(StateBeforeRollbackTest, OtherBitsAreReportedWithTheirOperator) {
  before_.note();
  trainer_.masters[1] ^= 1;
  const absl::Status status = before_.compare().status();
  EXPECT_TRUE(is_contradiction(status));
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("operator operator.1, master weights and moments: fing"));
}

TEST_F(StateBeforeRollbackTest, ComputeWeightsCountToo) {
  before_.note();
  trainer_.compute[2] ^= 1;
  EXPECT_TRUE(is_contradiction(before_.compare().status()));
}

// A second failure on the way back to step 5, at step 3: the bits of step 5 are still the job's.
TEST_F(StateBeforeRollbackTest, AnEarlierStateDoesNotReplaceALaterOne) {
  const auto at = [this](int64_t step) {
    ASSERT_TRUE(trainer_.restore_base(Step(step)).ok());
    trainer_.masters = trainer_.compute = {step, 20, 30};
  };
  at(5);
  before_.note();
  at(3);
  before_.note();
  EXPECT_FALSE(*before_.compare());
  at(5);
  trainer_.masters[1] ^= 1;
  EXPECT_TRUE(is_contradiction(before_.compare().status()));
  at(6);
  before_.note();
  EXPECT_TRUE(*before_.compare()) << "a later one does";
}

TEST_F(StateBeforeRollbackTest, AnotherStepIsNotCompared) {
  before_.note();
  ASSERT_TRUE(trainer_.restore_base(Step(1)).ok());
  EXPECT_FALSE(*before_.compare());
  before_.forget();
  ASSERT_TRUE(trainer_.restore_base(Step(0)).ok());
  EXPECT_FALSE(*before_.compare());
}

}  // namespace
}  // namespace evermoe
