#include "sim/lanes/told_lanes.h"

#include <gtest/gtest.h>

namespace evermoe {
namespace {

const Topology kTwoOfTwo({2, 2}, 2);

TEST(ToldLanes, WhoRestsMakesNoDifferenceButHowManyDo) {
  const MembershipHistory trained = {{.step = Step(4), .resting = {Rank(1)}},
                                     {.step = Step(9), .resting = {Rank(3)}},
                                     {.step = Step(12), .resting = {}}};
  EXPECT_EQ(lanes_text(kTwoOfTwo, trained, Step(20)), "0:2,2|4:1,2|9:2,1|12:2,2");
  const std::vector<LanesChanged> told = {{Step(0), {2, 2}},
                                          {Step(4), {1, 2}},
                                          {Step(6), {1, 2}},
                                          {Step(9), {2, 1}},
                                          {Step(12), {2, 2}}};
  EXPECT_EQ(lanes_text(kTwoOfTwo, told, Step(20)), lanes_text(kTwoOfTwo, trained, Step(20)));
}

TEST(ToldLanes, AfterTheLastStepNobodyTrains) {
  const std::vector<LanesChanged> told = {{Step(4), {1, 2}}, {Step(20), {1, 1}}};
  EXPECT_EQ(lanes_text(kTwoOfTwo, told, Step(20)), "0:2,2|4:1,2");
}

}  // namespace
}  // namespace evermoe
