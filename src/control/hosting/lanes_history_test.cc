#include "control/hosting/lanes_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace evermoe {
namespace {

using testing::ElementsAre;

class HistoryOfLanes : public testing::Test {
 protected:
  std::vector<std::string> changes() const {
    std::vector<std::string> lines;
    for (const LanesChanged& change : history_.changes())
      lines.push_back(absl::StrCat(change.step.value, ": ", absl::StrJoin(change.lanes, " ")));
    return lines;
  }
  LanesHistory history_;
};

TEST_F(HistoryOfLanes, WhatStartsAnewHoldsFromWhereAllGoOn) {
  EXPECT_FALSE(history_.on_change({Step(-1), {3, 3}}));
  EXPECT_TRUE(history_.on_resumed(Step(0)));
  EXPECT_FALSE(history_.on_resumed(Step(0))) << "every rank says so";
  EXPECT_TRUE(history_.on_change({Step(8), {2, 3}}));
  EXPECT_FALSE(history_.on_change({Step(8), {2, 3}})) << "the next controller says it again";
  EXPECT_THAT(changes(), ElementsAre("0: 3 3", "8: 2 3"));
}

TEST_F(HistoryOfLanes, WhatWasAfterACheckpointHasNotBeen) {
  history_ = LanesHistory({{Step(0), {3, 3}}, {Step(8), {2, 3}}, {Step(12), {3, 3}}});
  EXPECT_TRUE(history_.on_resumed(Step(10)));
  EXPECT_THAT(changes(), ElementsAre("0: 3 3", "8: 2 3"));
  history_.on_change({Step(-1), {2, 3}});
  EXPECT_FALSE(history_.on_resumed(Step(10))) << "they are the same";
  history_.on_change({Step(-1), {2, 3}});
  EXPECT_TRUE(history_.on_resumed(Step(5))) << "from before they were fewer";
  EXPECT_THAT(changes(), ElementsAre("0: 3 3", "5: 2 3"));
}

TEST_F(HistoryOfLanes, AnotherChangeAtTheSameStepIsTheOneThatHolds) {
  history_ = LanesHistory({{Step(0), {3, 3}}, {Step(8), {2, 3}}, {Step(12), {3, 3}}});
  EXPECT_TRUE(history_.on_change({Step(8), {1, 3}}));
  EXPECT_THAT(changes(), ElementsAre("0: 3 3", "8: 1 3"));
}

TEST_F(HistoryOfLanes, TheCheckpointKnowsWhatWasBefore) {
  history_ = LanesHistory({{Step(0), {3, 3}, 6, "the job begins"}, {Step(12), {2, 3}}});
  history_.on_change({Step(-1), {1, 3}, 4, "node 2 is lost"});
  const TrainedOn trained_on = {{Step(0), {3, 3}}, {Step(8), {2, 3}}};
  EXPECT_TRUE(history_.on_resumed(Step(10), trained_on));
  ASSERT_THAT(changes(), ElementsAre("0: 3 3", "8: 2 3", "10: 1 3"));
  EXPECT_EQ(history_.changes()[0].cause, "the job begins") << "what was known stays";
  EXPECT_EQ(history_.changes()[1].cause, "by the checkpoint");
  EXPECT_EQ(history_.changes()[2].cause, "node 2 is lost");
  EXPECT_FALSE(history_.on_resumed(Step(10), trained_on)) << "another rank says so";
  // One that was made by a program that did not note them.
  EXPECT_FALSE(history_.on_resumed(Step(10), {{Step(8), {2, 3}}}));
  // Training goes on, on the lanes of the checkpoint.
  history_.on_change({Step(-1), {2, 3}});
  EXPECT_TRUE(history_.on_resumed(Step(10), trained_on));
  EXPECT_THAT(changes(), ElementsAre("0: 3 3", "8: 2 3"));
}

TEST_F(HistoryOfLanes, WhatMembersSayOfTheirBeginningCorrectsIt) {
  const std::vector<LanesChanged> former = {
      {Step(0), {3, 3}}, {Step(8), {2, 3}}, {Step(12), {3, 3}}};
  history_ = LanesHistory(former);
  EXPECT_FALSE(history_.on_change({.step = Step(9), .lanes = {2, 3}, .is_base = true}));
  EXPECT_THAT(changes(), ElementsAre("0: 3 3", "8: 2 3", "12: 3 3")) << "it agrees";
  EXPECT_TRUE(history_.on_change({.step = Step(9), .lanes = {1, 3}, .is_base = true}));
  EXPECT_THAT(changes(), ElementsAre("0: 3 3", "8: 2 3", "9: 1 3"));
  history_ = LanesHistory();
  EXPECT_TRUE(history_.on_change({.step = Step(0), .lanes = {3, 3}, .is_base = true}));
  EXPECT_THAT(changes(), ElementsAre("0: 3 3")) << "nothing was handed on";
}

TEST_F(HistoryOfLanes, WhereMembersAreFoundNobodyGoesOnAsAControllerHadPlanned) {
  history_ = LanesHistory({{Step(0), {3, 3}}});
  history_.on_change({Step(-1), {2, 3}});
  EXPECT_FALSE(history_.on_change({.step = Step(0), .lanes = {3, 3}, .is_base = true}));
  EXPECT_FALSE(history_.on_resumed(Step(6)));
  EXPECT_THAT(changes(), ElementsAre("0: 3 3"));
}

}  // namespace
}  // namespace evermoe
