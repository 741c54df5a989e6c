#include "control/agent/followed_controller.h"

#include <gtest/gtest.h>

namespace evermoe {
namespace {

Welcome welcome_of(int64_t life, int64_t term, const std::string& job = "j") {
  return {life, {term, "owner", job, term - 1}, {}};
}

TEST(FollowedController, TheNewestOneIsFollowed) {
  FollowedController controller(absl::Seconds(10), absl::Seconds(2), absl::ZeroDuration());
  EXPECT_FALSE(controller.is_older(welcome_of(0, 1)));
  controller.meet(welcome_of(3, 2));
  EXPECT_TRUE(controller.is_older(welcome_of(2, 2)));
  EXPECT_FALSE(controller.is_older(welcome_of(3, 2)));
  EXPECT_TRUE(controller.is_older(welcome_of(9, 1))) << "of a former host";
  EXPECT_FALSE(controller.is_older(welcome_of(0, 3))) << "of the next one";
  EXPECT_EQ(controller.welcome().life, 3);
  EXPECT_EQ(controller.term().number, 2);
}

TEST(FollowedController, AnotherJobHasANewerTermOfItsOwn) {
  FollowedController controller(absl::Seconds(10), absl::Seconds(2), absl::ZeroDuration());
  EXPECT_FALSE(controller.is_of_another_job(welcome_of(0, 2, "k"))) << "none was met before";
  controller.meet(welcome_of(0, 2));
  EXPECT_FALSE(controller.is_of_another_job(welcome_of(1, 3)));
  EXPECT_TRUE(controller.is_of_another_job(welcome_of(1, 3, "k")));
}

TEST(FollowedController, WhereTimersAreLateItMayBeSilentForLonger) {
  FollowedController controller(absl::Seconds(10), absl::Seconds(2), absl::ZeroDuration());
  controller.on_sign(absl::Seconds(5));
  EXPECT_EQ(controller.gone_at(absl::Seconds(5)), absl::Seconds(15));
  controller.on_lateness(absl::Seconds(5), absl::Milliseconds(100));
  EXPECT_EQ(controller.gone_at(absl::Seconds(5)), absl::Seconds(15)) << "a busy machine in order";
  controller.on_lateness(absl::Seconds(5), absl::Seconds(1));
  const absl::Duration late_there = controller.gone_at(absl::Seconds(5));
  EXPECT_GT(late_there, absl::Seconds(15));
  controller.on_own_lateness(absl::Seconds(5), absl::Seconds(1));
  EXPECT_EQ(controller.gone_at(absl::Seconds(5)), late_there) << "the larger one counts";
}

}  // namespace
}  // namespace evermoe
