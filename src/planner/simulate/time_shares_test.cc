#include <gtest/gtest.h>

#include "planner/plan/plan_testing.h"
#include "planner/simulate/time_shares.h"

namespace evermoe {
namespace {

// The causes are all of the time, in the runs of a real plan.
TEST(TimeSharesTest, TheyAddUpToOne) {
  const ProtectionPlan plan = planned(small_job(), small_cluster(2));
  double sum = 0;
  for (const TimeCause& cause : time_causes()) sum += cause.share(plan.best.estimates);
  EXPECT_NEAR(sum, 1, 1e-9);
}

}  // namespace
}  // namespace evermoe
