#include "recovery/member/role_leave.h"

#include <gtest/gtest.h>

namespace evermoe {
namespace {

constexpr View kView(3);

LeaveOrder stops_at(int64_t state, View view = kView) {
  return {.view = view, .stop_at = Step(state)};
}

TEST(RoleLeaveTest, TheRoleStopsWhereItIsTold) {
  RoleLeave leave;
  EXPECT_TRUE(leave.order(stops_at(7)));
  EXPECT_TRUE(leave.passes(kView, Step(6)));
  EXPECT_TRUE(leave.stops_at(kView, Step(7)));
  EXPECT_FALSE(leave.passes(kView, Step(7)));
  EXPECT_TRUE(leave.order({.view = kView, .is_off = true}));
  EXPECT_TRUE(leave.passes(kView, Step(7)));
}

TEST(RoleLeaveTest, AnOrderIsLateWhereTheTrainingHasGoneOn) {
  RoleLeave leave;
  EXPECT_TRUE(leave.passes(kView, Step(7)));
  EXPECT_TRUE(leave.order(stops_at(8)));
  EXPECT_FALSE(leave.order(stops_at(7)));
  EXPECT_FALSE(leave.passes(kView, Step(8))) << "it stops as soon as it can";
}

TEST(RoleLeaveTest, WhatAnOlderViewPassedIsNothing) {
  RoleLeave leave;
  EXPECT_TRUE(leave.passes(View(2), Step(9))) << "the job may have gone back since";
  EXPECT_TRUE(leave.order(stops_at(7)));
}

TEST(RoleLeaveTest, AnOrderThatDoesNotSayWhereIsNeverLate) {
  RoleLeave leave;
  EXPECT_TRUE(leave.passes(kView, Step(7)));
  EXPECT_TRUE(leave.order(stops_at(-1)));
  EXPECT_TRUE(leave.passes(kView, Step(8)));
}

}  // namespace
}  // namespace evermoe
