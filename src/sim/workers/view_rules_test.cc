#include "sim/workers/view_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class Rules : public testing::Test {
 protected:
  void enters(int64_t process, int rank, uint32_t view, const std::string& reason = "") {
    Plan plan;
    plan.view = View(view);
    plan.reasons = {reason};
    rules_.on_entered(process, Rank(rank), View(view), plan);
  }

  std::set<int64_t> dead_;
  ViewRules rules_{[this](int64_t process) { return !dead_.contains(process); }};
};

TEST_F(Rules, OneProcessForEachRoleByOnePlanBreaksNone) {
  for (const uint32_t view : {1, 2}) {
    for (int rank = 0; rank < 3; ++rank) enters(rank, rank, view);
  }
  rules_.on_commit(0, Rank(0), View(2));
  EXPECT_THAT(rules_.violations(), IsEmpty());
}

TEST_F(Rules, TwoThatLiveAndPlayOneRole) {
  enters(1, 0, 5);
  enters(2, 0, 5);
  EXPECT_THAT(rules_.violations(), ElementsAre("rank 0 in view 5 is played by two processes"));
}

TEST_F(Rules, ADeadOneDoesNotPlay) {
  enters(1, 0, 5);
  dead_ = {1};
  enters(2, 0, 5);
  EXPECT_THAT(rules_.violations(), IsEmpty());
}

TEST_F(Rules, TwoPlansOfOneView) {
  enters(1, 0, 5, "a node is lost");
  enters(2, 1, 5, "a worker is lost");
  EXPECT_THAT(rules_.violations(),
              ElementsAre("rank 1 in view 5 follows another plan than others"));
}

TEST_F(Rules, NobodyReturnsToAnOlderView) {
  enters(1, 0, 5);
  enters(1, 0, 4);
  EXPECT_THAT(rules_.violations(), ElementsAre("rank 0 in view 4 was in view 5 already"));
}

}  // namespace
}  // namespace evermoe
