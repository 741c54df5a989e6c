#include "control/controller/moves/move_payoff.h"

#include <gtest/gtest.h>

namespace evermoe {
namespace {

TEST(MovePayoff, WhatTheStepsSaveThatAreLeftThenHasToBeMoreThanThePause) {
  const auto decide = [](int64_t steps_left) {
    return payoff_of({.step = absl::Seconds(0.6),
                      .excess = absl::Seconds(0.1),
                      .preparation = absl::Seconds(10),
                      .pause = absl::Seconds(2),
                      .steps_left = steps_left});
  };
  EXPECT_FALSE(decide(5).is_positive) << "it would come too late";
  EXPECT_FALSE(decide(37).is_positive);
  EXPECT_TRUE(decide(38).is_positive);
  EXPECT_EQ(decide(38).arithmetic,
            "a move is made in about 10 s, 21 steps are left then and take 2.1 s longer with it, "
            "and the job stands for about 2.0 s");
}

}  // namespace
}  // namespace evermoe
