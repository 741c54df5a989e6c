#include "sim/lanes/lanes_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class LanesRecordTest : public testing::Test {
 protected:
  LanesRecordTest() {
    Plan first;
    first.view = View(1);
    first.restart_all = true;
    record_.on_resumed(first, Step(0));
  }
  // A member of that view commits; rank 1 rests from `changed` on; -1: nobody does.
  void commits(uint32_t view, int64_t step, int64_t changed = -1, int64_t window = 0) {
    Plan plan;
    plan.view = View(view);
    plan.window = Step(window);
    if (changed >= 0) plan.membership = {{.step = Step(changed), .resting = {Rank(1)}}};
    record_.on_commit(plan, Step(step));
  }
  std::vector<int64_t> changes() const {
    std::vector<int64_t> steps;
    for (const MembershipChange& change : record_.history()) steps.push_back(change.step.value);
    return steps;
  }
  LanesRecord record_;
};

TEST_F(LanesRecordTest, AChangeCountsOnceSomebodyHasComeToIt) {
  commits(2, 6, 7);
  EXPECT_THAT(changes(), IsEmpty());
  commits(2, 7, 7);
  EXPECT_THAT(changes(), ElementsAre(7));
  commits(3, 20, -1, 12);
  EXPECT_THAT(changes(), ElementsAre(7)) << "the plan of a later view has no older ones";
}

TEST_F(LanesRecordTest, WhatAFormerHostHasChangedCountsAsFarAsTheNextOneHasNotCome) {
  commits(1001, 4);
  commits(2, 9, 7);
  EXPECT_THAT(changes(), ElementsAre(7));
  commits(1001, 8);
  EXPECT_THAT(changes(), IsEmpty()) << "it went that way on all lanes";
  commits(2, 12, 7);
  EXPECT_THAT(changes(), IsEmpty());
}

TEST_F(LanesRecordTest, OfARunThatWasGivenUpNothingCounts) {
  Plan anew;
  anew.view = View(1001);
  anew.restart_all = true;
  record_.on_resumed(anew, Step(5));
  commits(2, 9, 7);
  EXPECT_THAT(changes(), IsEmpty());
  anew.view = View(2);
  EXPECT_TRUE(record_.is_given_up(anew));
}

}  // namespace
}  // namespace evermoe
