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

}  // namespace
}  // namespace evermoe
