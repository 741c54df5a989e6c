#include "control/health/node_health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

HealthLimits limits() {
  HealthLimits limits;
  limits.memory_bytes = 2'000'000'000;
  return limits;
}

NodeHealth healthy() {
  NodeHealth health;
  health.memory_bytes = 2'000'000'000;
  health.folders = {{.path = "/tmp/own", .free_bytes = int64_t{1} << 20},
                    {.path = "/out", .is_shared = true, .free_bytes = int64_t{1} << 40}};
  health.loopbacks = {{"127.0.0.1", ""}, {"AF_UNIX", ""}};
  health.clock = {{absl::Seconds(-301), absl::Seconds(-300)}};
  return health;
}

TEST(NodeHealth, JustEnoughOfEverythingIsFit) {
  EXPECT_THAT(judge(healthy(), limits()), IsEmpty());
}

TEST(NodeHealth, WhatIsNotKnownIsNoComplaint) {
  EXPECT_THAT(judge(NodeHealth(), limits()), IsEmpty());
}

TEST(NodeHealth, EveryComplaintHasTheValueAndTheLimit) {
  NodeHealth ill = healthy();
  ill.memory_bytes = 1'900'000'000;
  ill.folders[0].free_bytes = 12'000;
  ill.folders[1].trouble = "Stale file handle";
  ill.loopbacks[0].trouble = "connect: Connection refused";
  ill.clock_goes_on = false;
  ill.clock = {{absl::Seconds(301), absl::Seconds(900)}};
  ill.unanswered = "disk of /out";
  EXPECT_THAT(
      judge(ill, limits()),
      ElementsAre("memory: 1900.0 MB available, needed for its roles: at least 2000.0 MB",
                  "disk: 0.0 MB free in /tmp/own, needed: at least 1.0 MB",
                  "disk: a small file in /out cannot be written and read back: Stale file handle",
                  "network: it does not reach itself over 127.0.0.1: connect: Connection refused",
                  "clock: its monotonic clock stands still",
                  "clock: its date is at least 5m1s ahead of the controller's, allowed: at most 5m",
                  "disk of /out: no answer within 1m"));
}

// Nobody can save then, and training goes on: to leave machines out would only end the job.
TEST(NodeHealth, AFullFolderOfTheJobIsNotTheFaultOfAMachine) {
  NodeHealth full = healthy();
  full.folders[1].free_bytes = 0;
  full.folders[1].trouble = "No space left on device";
  full.folders[1].is_full = true;
  EXPECT_THAT(judge(full, limits()), IsEmpty());
  full.folders[0].trouble = "Disk quota exceeded";
  full.folders[0].is_full = true;
  EXPECT_THAT(judge(full, limits()),
              ElementsAre("disk: a small file in /tmp/own cannot be written and read back: "
                          "Disk quota exceeded"));
}

TEST(NodeHealth, ADiskThatTakesMinutesIsNoDisk) {
  NodeHealth slow = healthy();
  slow.folders[0].took = absl::Minutes(2);
  EXPECT_THAT(judge(slow, limits()),
              ElementsAre("disk: a small file in /tmp/own took 2m, allowed: at most 1m"));
}

// A node or a controller that stood still answers late: then nothing is known of their clocks.
TEST(NodeHealth, ALongRoundTripSaysNothingOfAClock) {
  NodeHealth health = healthy();
  health.clock = clock_difference(/*asked=*/absl::Seconds(1000), /*other=*/absl::Seconds(1001),
                                  /*answered=*/absl::Seconds(5000));
  EXPECT_THAT(judge(health, limits()), IsEmpty());
  health.clock = clock_difference(absl::Seconds(1000), absl::Seconds(1500), absl::Seconds(1010));
  EXPECT_THAT(judge(health, limits()),
              ElementsAre("clock: its date is at least 8m10s behind the controller's, "
                          "allowed: at most 5m"));
}

}  // namespace
}  // namespace evermoe
