#include "cli/experiment/failure_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

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

// Who is there after each of these; fails if somebody goes twice or comes without having gone.
std::vector<size_t> present_after(const std::vector<FailureTime>& times, int nodes) {
  std::set<int> present;
  for (int node = 0; node < nodes; ++node) present.insert(node);
  std::vector<size_t> counts;
  double last = 0;
  for (const FailureTime& time : times) {
    EXPECT_GE(time.steps, std::exchange(last, time.steps));
    for (const int node : time.victims) {
      if (time.kind == FaultKind::kLoseNode)
        EXPECT_EQ(present.erase(node), 1u);
      else
        EXPECT_TRUE(time.kind == FaultKind::kReturnNode && present.insert(node).second);
    }
    counts.push_back(present.size());
  }
  return counts;
}

TEST(FailureSchedule, NodesThatAreGoneStayAwayOrComeBack) {
  FailureProcess process{.name = "p", .mtbf_steps = 10, .lost_together = 2, .are_gone = true};
  const auto gone = draw_departures(process, 1, 6, 1e4);
  EXPECT_EQ(present_after(gone, 6), (std::vector<size_t>{4, 2})) << "the last ones stay";
  process.lost_together = 1;
  process.back_after_steps = 25;
  const auto back = draw_departures(process, 1, 6, 1000);
  const std::vector<size_t> counts = present_after(back, 6);
  EXPECT_GT(counts.size(), 100u);
  EXPECT_EQ(*std::ranges::min_element(counts), 1u);
  EXPECT_EQ(*std::ranges::max_element(counts), 6u);
  const FaultScript script = faults_of({back[0]}, Topology({6}, 4), 0.5, 3);
  EXPECT_EQ(script.faults[0].kind, FaultKind::kLoseNode);
  EXPECT_EQ(script.faults[0].node, back[0].victims[0]);
  EXPECT_EQ(script.faults[0].after_seconds, 3 + 0.5 * back[0].steps);
}

constexpr char kComings[] =
    "0,add,a\n0,add,b\n0,add,c\n10000,remove,b\n20000,add,d\n30000,remove,d\n30000,remove,a\n"
    "40000,add,e\n";

TEST(FailureSchedule, WhoComesInATraceTakesThePlaceOfOneThatHasGone) {
  const FailureTrace trace = parse_instance_trace(kComings, "t").value();
  const FailureProcess process{.name = "t", .trace = "t", .mtbf_steps = 40, .are_gone = true};
  const auto all = trace_departures(process, trace, 1, 3);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(present_after(*all, 3), (std::vector<size_t>{2, 3, 1, 2}));
  // Two losses in 40 s, which are 80 steps.
  EXPECT_DOUBLE_EQ(all->front().steps, 20);
  EXPECT_DOUBLE_EQ(all->back().steps, 80);
  std::set<size_t> events;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto one = trace_departures(process, trace, seed, 1);
    if (one.ok()) events.insert(present_after(*one, 1).size());
  }
  EXPECT_EQ(events, (std::set<size_t>{2, 3})) << "the place that nobody leaves is refused";
  EXPECT_FALSE(trace_departures(process, trace, 1, 4).ok());
}

}  // namespace
}  // namespace evermoe
