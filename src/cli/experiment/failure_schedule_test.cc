#include "cli/experiment/failure_schedule.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include <set>

namespace evermoe {
namespace {

double mean_gap(const std::vector<FailureTime>& failures) {
  return failures.back().steps / static_cast<double>(failures.size());
}

TEST(FailureSchedule, HasTheMeanOfItsLaw) {
  for (const double shape : {1.0, 0.7, 2.0}) {
    const FailureProcess process{.name = "p", .trace = "", .shape = shape, .mtbf_steps = 40};
    const auto failures = draw_failures(process, {}, 3, 4, 1e9);
    ASSERT_EQ(failures.size(), 1000u);
    // Four standard errors of the widest of them.
    EXPECT_NEAR(mean_gap(failures), 40, 40 * 4 * 1.5 / std::sqrt(1000.0)) << shape;
    std::set<int> victims;
    for (const FailureTime& failure : failures) victims.insert(failure.victims.at(0));
    EXPECT_EQ(victims, (std::set<int>{0, 1, 2, 3}));
  }
}

TEST(FailureSchedule, DependsOnTheSeedAlone) {
  const FailureProcess process{.name = "p", .trace = "", .shape = 1, .mtbf_steps = 10};
  const auto first = draw_failures(process, {}, 1, 4, 200),
             again = draw_failures(process, {}, 1, 4, 200);
  const auto longer = draw_failures(process, {}, 1, 4, 400),
             other = draw_failures(process, {}, 2, 4, 200);
  ASSERT_FALSE(first.empty());
  ASSERT_EQ(first.size(), again.size());
  ASSERT_GT(longer.size(), first.size());
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].steps, again[i].steps);
    EXPECT_EQ(first[i].steps, longer[i].steps);
    EXPECT_EQ(first[i].victims, longer[i].victims);
    EXPECT_LE(first[i].steps, 200);
  }
  EXPECT_NE(first[0].steps, other[0].steps);
}

TEST(FailureSchedule, PlaysATraceScaled) {
  const FailureProcess process{.name = "t", .trace = "t", .shape = 1, .mtbf_steps = 10};
  const auto failures = draw_failures(process, {1, 2, 3}, 5, 2, 60);
  ASSERT_GE(failures.size(), 6u);  // two rounds of three gaps of ten steps on average
  EXPECT_NEAR(failures[2].steps, 30, 1e-9);
  EXPECT_NEAR(failures[5].steps, 60, 1e-9);
}

TEST(FailureSchedule, BecomesFaultsByTime) {
  const Topology topology({2, 1}, 4);
  const FaultScript script = faults_of({{10, {0}}, {20, {2}}}, topology, 0.5, 3);
  ASSERT_EQ(script.faults.size(), 2u);
  EXPECT_EQ(script.faults[0].after_seconds, 8);
  EXPECT_EQ(script.faults[1].after_seconds, 13);
  EXPECT_EQ(script.faults[1].role, (FaultRole{1, 0}));
  EXPECT_EQ(script.faults[1].kind, FaultKind::kKillWorker);
}

TEST(FailureSchedule, TakesDifferentNodesAtOneMoment) {
  const FailureProcess process{
      .name = "p", .trace = "", .shape = 1, .mtbf_steps = 10, .lost_together = 2};
  const auto failures = draw_failures(process, {}, 1, 3, 1e6);
  ASSERT_EQ(failures.size(), 500u);  // two faults each
  std::set<std::vector<int>> pairs;
  for (const FailureTime& failure : failures) {
    ASSERT_EQ(failure.victims.size(), 2u);
    EXPECT_LT(failure.victims[0], failure.victims[1]);
    pairs.insert(failure.victims);
  }
  EXPECT_EQ(pairs.size(), 3u);  // all that there are
  const FaultScript script = faults_of({failures[0]}, Topology({2, 1}, 4), 0.5, 3);
  ASSERT_EQ(script.faults.size(), 2u);
  for (const Fault& fault : script.faults) EXPECT_EQ(fault.kind, FaultKind::kKillNode);
  EXPECT_EQ(script.faults[0].after_seconds, script.faults[1].after_seconds);
  EXPECT_EQ(script.faults[1].node, failures[0].victims[1]);
}

}  // namespace
}  // namespace evermoe
