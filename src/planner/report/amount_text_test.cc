#include <gtest/gtest.h>

#include "planner/plan/plan_testing.h"
#include "planner/report/amount_text.h"

namespace evermoe {
namespace {

TEST(NumberTextTest, PeopleReadThreeDigits) {
  EXPECT_EQ(duration_text(0.0123), "12.3 ms");
  EXPECT_EQ(duration_text(95), "95 s");
  EXPECT_EQ(duration_text(811.2), "13.5 min");
  EXPECT_EQ(duration_text(2.4 * kDay), "2.4 days");
  EXPECT_EQ(bytes_text(7.79e9), "7.79 GB");
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(count_text(4194304), "4.19 M");
  EXPECT_EQ(percent_text(0.9731), "97.31 %");
}

}  // namespace
}  // namespace evermoe
