#include "control/hosting/host_grace.h"

#include <gtest/gtest.h>

namespace evermoe {
namespace {

TEST(HostGrace, WhoHasJustTakenATermHasItsTime) {
  HostGrace grace(/*met=*/3);
  grace.note(absl::Seconds(100), 3);
  EXPECT_TRUE(grace.is_over(absl::Seconds(100))) << "it was there before";
  grace.note(absl::Seconds(102), 4);
  EXPECT_FALSE(grace.is_over(absl::Seconds(102)));
  grace.note(absl::Seconds(111), 4);
  EXPECT_FALSE(grace.is_over(absl::Seconds(111)));
  EXPECT_TRUE(grace.is_over(absl::Seconds(112))) << "it has not begun";
}

TEST(HostGrace, TheFirstHostOfAJobWaitsForNobody) {
  const HostGrace grace(/*met=*/0);
  EXPECT_TRUE(grace.is_over(absl::ZeroDuration()));
}

}  // namespace
}  // namespace evermoe
