#include "control/launch/protection_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/config_key.h"

namespace evermoe {
namespace {

using testing::HasSubstr;

// Two stages of two lanes, two copies wanted.
JobConfig job(int64_t budget) {
  JobConfig config;
  config.parallel.lanes = {2, 2};
  config.protection.copies = 2;
  config.protection.memory_budget = budget;
  return config;
}

// The least budget with which `copies` fit.
int64_t least_budget(int64_t copies) {
  int64_t low = 1, high = int64_t{1} << 40;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    const auto fit = fit_protection(job(middle));
    (fit.ok() && fit->copies >= copies ? high : low) = middle;
  }
  return high;
}

TEST(ProtectionFitTest, CopiesGetFewerBeforeTheJobIsRefused) {
  const int64_t two = least_budget(2), one = least_budget(1);
  EXPECT_LT(one, two);
  const auto all = fit_protection(job(two));
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->copies, 2);
  EXPECT_EQ(all->why, "");
  const auto fewer = fit_protection(job(two - 1));
  ASSERT_TRUE(fewer.ok());
  EXPECT_EQ(fewer->copies, 1);
  EXPECT_THAT(fewer->why,
              HasSubstr("copies of each snapshot: 1 instead of 2; protection.memory_budget"));
  const auto refused = fit_protection(job(one - 1));
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("the copies kept for 1 peers"));
}

TEST(ProtectionFitTest, ImagesInMemoryAreTwoOfTheState) {
  EXPECT_TRUE(check_image_memory(job(int64_t{1} << 40)).ok());
  const absl::Status refused = check_image_memory(job(1 << 20));
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("protection.memory_budget: 1 MiB are too few: a rank's own state takes "));
}

TEST(ProtectionFitTest, NoCopiesStayNone) {
  JobConfig config = job(int64_t{1} << 40);
  config.protection.copies = 0;
  EXPECT_EQ(fit_protection(config)->copies, 0);
}

}  // namespace
}  // namespace evermoe
