// Laws that fit recorded traces.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "planner/failures/failure_trace.h"
#include "planner/plan/plan_testing.h"

namespace evermoe {
namespace {

// Four nodes for 100 s; one goes at 20 s and is back at 60 s; another crashes twice.
TEST(TraceFitTest, TheLawHasAsManyLossesAndAsManyMissingNodes) {
  using Kind = AvailabilityEvent::Kind;
  FailureTrace trace{
      .nodes = {"a", "b", "c", "d"}, .up_at_start = {true, true, true, true}, .end_seconds = 100};
  trace.events = {{20, Kind::kDown, {1}},
                  {30, Kind::kCrash, {2}},
                  {40, Kind::kCrash, {2}},
                  {60, Kind::kUp, {1}}};
  const FailureLaw law = fitted_law(trace);
  EXPECT_DOUBLE_EQ(law.node_mtbf_seconds, 360.0 / 3);
  EXPECT_DOUBLE_EQ(law.crash_share, 2.0 / 3);
  EXPECT_DOUBLE_EQ(law.repair_seconds, 40);
}

// What is drawn from a law and recorded looks like the law.
TEST(TraceFitTest, ALawIsFoundAgain) {
  const FailureLaw law{.node_mtbf_seconds = 10 * kDay, .repair_seconds = kDay, .crash_share = 0.25};
  const auto source = draw_availability(law, 100, 0, 7);
  FailureTrace trace{.nodes = std::vector<std::string>(100, "n"),
                     .up_at_start = std::vector<bool>(100, true),
                     .end_seconds = 1000 * kDay};
  while (const auto event = source->next()) {
    if (event->seconds > trace.end_seconds) break;
    trace.events.push_back(
        {event->seconds, event->kind, {event->nodes.begin(), event->nodes.end()}});
  }
  const FailureLaw fitted = fitted_law(trace);
  EXPECT_NEAR(fitted.node_mtbf_seconds, law.node_mtbf_seconds, 0.05 * law.node_mtbf_seconds);
  EXPECT_NEAR(fitted.crash_share, 0.25, 0.02);
  EXPECT_NEAR(fitted.repair_seconds, kDay, 0.05 * kDay);
}

TEST(TraceFitTest, RecordedTracesOfBothFormatsAreRead) {
  const std::string folder = std::string(EVERMOE_SOURCE_DIR) + "/data/planner/";
  const auto instances = load_failure_trace(real_files(), folder + "bamboo-ec2-p3.csv", 400);
  ASSERT_TRUE(instances.ok()) << instances.status();
  const auto faults =
      load_failure_trace(real_files(), folder + "infinitehbd-fault-events.csv", 400);
  ASSERT_TRUE(faults.ok()) << faults.status();
  EXPECT_EQ(faults->nodes.size(), 400u);
  // 584 faults of 400 servers in 348 days.
  EXPECT_NEAR(fitted_law(*faults).node_mtbf_seconds, 400 * 348 * kDay / 584,
              0.1 * 400 * 348 * kDay / 584);
  EXPECT_EQ(message_of(load_failure_trace(real_files(), "/no/such.csv", 1).status()),
            "/no/such.csv: no such file, allowed: a failure trace");
}

}  // namespace
}  // namespace evermoe
