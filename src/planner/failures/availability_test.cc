#include "planner/failures/availability.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "planner/failures/failure_trace.h"

namespace evermoe {
namespace {

using Kind = AvailabilityEvent::Kind;

constexpr double kDay = 86400;

// What a source does until `seconds`.
struct Watched {
  std::map<Kind, int> events;
  std::map<Kind, int> nodes;
  double up_share = 0;        // of all node time
  double two_down_share = 0;  // of the time: at least two nodes down
  std::vector<double> failure_times;
};

Watched watch(AvailabilitySource& source, double seconds) {
  Watched seen;
  const int nodes = source.nodes();
  std::vector<bool> up(static_cast<size_t>(nodes));
  int count = 0;
  for (int n = 0; n < nodes; ++n) count += up[static_cast<size_t>(n)] = source.up_at_start(n);
  double last = 0;
  auto pass = [&](double until) {
    seen.up_share += count * (until - last) / (nodes * seconds);
    if (count <= nodes - 2) seen.two_down_share += (until - last) / seconds;
    last = until;
  };
  while (const auto event = source.next()) {
    if (event->seconds > seconds) break;
    pass(event->seconds);
    ++seen.events[event->kind];
    seen.nodes[event->kind] += static_cast<int>(event->nodes.size());
    if (event->kind != Kind::kUp) seen.failure_times.push_back(event->seconds);
    if (event->kind == Kind::kCrash) continue;
    const bool comes = event->kind == Kind::kUp;
    for (const int node : event->nodes) {
      EXPECT_EQ(up[static_cast<size_t>(node)], !comes) << node;
      up[static_cast<size_t>(node)] = comes;
    }
    count += (comes ? 1 : -1) * static_cast<int>(event->nodes.size());
  }
  pass(seconds);
  return seen;
}

TEST(AvailabilityTest, PoissonFailuresComeAtTheirRate) {
  const FailureLaw law{.node_mtbf_seconds = 10 * kDay};
  const auto source = draw_availability(law, 100, 0, 5);
  const Watched seen = watch(*source, 1000 * kDay);
  EXPECT_DOUBLE_EQ(failure_rate(law, 100, 0) * kDay, 10);
  EXPECT_NEAR(seen.events.at(Kind::kCrash), 10000, 4 * 100);
  EXPECT_EQ(seen.events.size(), 1u);  // without repairs every failure is a crash
  // Intervals of a Poisson process: mean and deviation are equal.
  double sum = 0, squares = 0;
  for (size_t i = 1; i < seen.failure_times.size(); ++i) {
    const double interval = seen.failure_times[i] - seen.failure_times[i - 1];
    sum += interval;
    squares += interval * interval;
  }
  const double n = static_cast<double>(seen.failure_times.size() - 1), mean = sum / n;
  EXPECT_NEAR(std::sqrt(squares / n - mean * mean) / mean, 1, 0.04);
}

TEST(AvailabilityTest, TheWholeJobFailsAtOnce) {
  const FailureLaw law{
      .node_mtbf_seconds = 1e11, .repair_seconds = kDay, .whole_job_node_seconds = 500 * kDay};
  EXPECT_DOUBLE_EQ(whole_job_failure_rate(law, 50) * kDay, 0.1);
  EXPECT_NEAR(failure_rate(law, 50, 0) * kDay, 0.1, 1e-4);
  EXPECT_DOUBLE_EQ(whole_job_failure_rate(scaled(law, 2), 50) * kDay, 0.2);
  const Watched seen = watch(*draw_availability(law, 50, 0, 3), 10000 * kDay);
  EXPECT_NEAR(seen.events.at(Kind::kCrash), 1000, 4 * 32);
  // All that are up crash: nearly all.
  EXPECT_NEAR(seen.nodes.at(Kind::kCrash) / seen.events.at(Kind::kCrash), 50, 1);
}

TEST(AvailabilityTest, SharesOfCrashesAndAnnouncements) {
  const FailureLaw law{.node_mtbf_seconds = kDay,
                       .repair_seconds = 3600,
                       .crash_share = 0.25,
                       .announced_share = 0.4};
  const auto source = draw_availability(law, 50, 0, 6);
  Watched seen = watch(*source, 400 * kDay);
  const double failures =
      seen.events[Kind::kCrash] + seen.events[Kind::kDown] + seen.events[Kind::kAnnounced];
  EXPECT_NEAR(seen.events[Kind::kCrash] / failures, 0.25, 0.015);
  EXPECT_NEAR(seen.events[Kind::kAnnounced] / failures, 0.75 * 0.4, 0.015);
  EXPECT_NEAR(seen.events[Kind::kUp], seen.events[Kind::kDown] + seen.events[Kind::kAnnounced], 50);
  EXPECT_NEAR(seen.up_share, availability(law, 0), 0.001);
}

// A renewal process of any law that is watched from a random instant has exactly t / mean renewals.
TEST(AvailabilityTest, AgedWeibullNodesFailAtTheMeanRateFromTheStart) {
  for (const double shape : {0.6, 1.0, 3.0}) {
    const FailureLaw law{.node_mtbf_seconds = 10 * kDay, .shape = shape};
    int early = 0, late = 0;
    const auto source = draw_availability(law, 20000, 0, 7);
    for (const double time : watch(*source, 4 * kDay).failure_times)
      (time < 2 * kDay ? early : late) += 1;
    EXPECT_NEAR(early, 4000, 4 * std::sqrt(4000.0)) << shape;
    EXPECT_NEAR(late, 4000, 4 * std::sqrt(4000.0)) << shape;
  }
}

TEST(AvailabilityTest, NewWeibullNodesFailEarlyIfTheShapeIsBelowOne) {
  const FailureLaw law{.node_mtbf_seconds = 10 * kDay, .shape = 0.5, .aged = false};
  const auto source = draw_availability(law, 20000, 0, 8);
  const double scale = law.node_mtbf_seconds / std::tgamma(3);
  int first_lives = 0;
  for (const double time : watch(*source, kDay).failure_times) first_lives += time < 0.1 * kDay;
  // Of lives that end that early few are second ones.
  const double share = -std::expm1(-std::sqrt(0.1 * kDay / scale));
  EXPECT_NEAR(first_lives, 20000 * (share + share * share / 2), 300);
}

TEST(AvailabilityTest, ARackTakesItsNodesAtOnce) {
  const FailureLaw law{.node_mtbf_seconds = 1e12,
                       .repair_seconds = 60,
                       .rack_mtbf_seconds = 10 * kDay,
                       .rack_repair_seconds = kDay / 2};
  const auto source = draw_availability(law, 10, 3, 9);
  std::vector<int> sizes;
  for (int i = 0; i < 2000; ++i) {
    const auto event = source->next();
    for (const int node : event->nodes)
      EXPECT_EQ(rack_of(node, 10, 3), rack_of(event->nodes[0], 10, 3));
    sizes.push_back(static_cast<int>(event->nodes.size()));
  }
  EXPECT_EQ(std::count(sizes.begin(), sizes.end(), 3) + std::count(sizes.begin(), sizes.end(), 4),
            2000);
  const auto again = draw_availability(law, 10, 3, 9);
  EXPECT_NEAR(watch(*again, 30000 * kDay).up_share, 10 / 10.5, 0.003);
}

// A node that fails in a failed rack stays down until both are repaired, and is reported once.
TEST(AvailabilityTest, CausesOverlapWithoutDoubleReports) {
  const FailureLaw law{.node_mtbf_seconds = kDay,
                       .repair_seconds = kDay / 2,
                       .exponential_repair = true,
                       .rack_mtbf_seconds = kDay,
                       .rack_repair_seconds = kDay / 2};
  const auto source = draw_availability(law, 12, 4, 10);
  // watch() checks that only up nodes go and only down ones come.
  EXPECT_NEAR(watch(*source, 20000 * kDay).up_share, availability(law, 4), 0.005);
}

TEST(AvailabilityTest, SameSeedSameEvents) {
  const FailureLaw law{
      .node_mtbf_seconds = kDay, .shape = 0.7, .repair_seconds = 3600, .crash_share = 0.3};
  const auto one = draw_availability(law, 30, 0, 1), same = draw_availability(law, 30, 0, 1),
             other = draw_availability(law, 30, 0, 2);
  EXPECT_EQ(one->next()->seconds, same->next()->seconds);
  EXPECT_NE(same->next()->seconds, other->next()->seconds);
  for (int i = 0; i < 200; ++i) one->next();
}

TEST(AvailabilityTest, RacksAreConsecutiveAndEven) {
  for (const int racks : {1, 3, 7, 10}) {
    std::vector<int> sizes(static_cast<size_t>(racks), 0);
    for (int node = 0; node < 10; ++node) ++sizes[static_cast<size_t>(rack_of(node, 10, racks))];
    EXPECT_LE(*std::max_element(sizes.begin(), sizes.end()),
              *std::min_element(sizes.begin(), sizes.end()) + 1);
  }
}

TEST(AvailabilityTest, LawsOutOfRangeAreRefusedByName) {
  EXPECT_EQ(check({.node_mtbf_seconds = 0}, 0).message(),
            "failures.node_mtbf_hours: found 0, allowed: 2.77778e-07 to 1e+09");
  EXPECT_FALSE(check({.node_mtbf_seconds = 1, .crash_share = 1.5}, 0).ok());
  EXPECT_FALSE(check({.node_mtbf_seconds = 1, .rack_mtbf_seconds = 5}, 0).ok());
  EXPECT_TRUE(check({.node_mtbf_seconds = 1, .rack_mtbf_seconds = 5}, 2).ok());
}

std::string data(const std::string& name) {
  std::ifstream file(std::string(EVERMOE_SOURCE_DIR) + "/data/planner/" + name);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << name;
  return text.str();
}

// The table in data/planner/README.md.
TEST(FailureTraceTest, RecordedInstanceTraces) {
  struct Row {
    const char* name;
    int instants, removed, nodes_max;
    double mean, share;
  };
  for (const Row& row : {Row{"bamboo-ec2-p3.csv", 79, 167, 32, 24.0, 0.200},
                         Row{"bamboo-g4dn-6h-24instants.csv", 24, 34, 15, 10.3, 0.333},
                         Row{"oobleck-scaled-gcp.csv", 63, 72, 30, 22.2, 0.133}}) {
    const auto trace = parse_instance_trace(data(row.name), row.name);
    ASSERT_TRUE(trace.ok()) << trace.status();
    const FailureTrace::Summary summary = trace->summary();
    EXPECT_EQ(summary.removals, row.instants) << row.name;
    EXPECT_EQ(summary.nodes_removed, row.removed) << row.name;
    EXPECT_EQ(summary.nodes_max, row.nodes_max) << row.name;
    EXPECT_NEAR(summary.nodes_mean, row.mean, 0.06) << row.name;
    EXPECT_NEAR(summary.largest_share, row.share, 0.0006) << row.name;
    watch(*play_availability(*trace), trace->end_seconds);
  }
}

TEST(FailureTraceTest, RecordedFaultsOfAPreTrainingCluster) {
  const auto trace = parse_fault_trace(data("infinitehbd-fault-events.csv"), "infinitehbd", 400);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->nodes.size(), 400u);
  const Watched seen = watch(*play_availability(*trace), trace->end_seconds);
  EXPECT_NEAR(trace->end_seconds / kDay, 348, 1);
  // 584 faults on 231 servers, 24 of them of software, some overlapping; mean down time 5.5 days.
  EXPECT_GT(seen.nodes.at(Kind::kDown) + seen.nodes.at(Kind::kCrash), 500);
  EXPECT_LE(seen.nodes.at(Kind::kDown) + seen.nodes.at(Kind::kCrash), 584);
  EXPECT_EQ(seen.nodes.at(Kind::kDown), seen.nodes.at(Kind::kUp));
  EXPECT_NEAR(1 - seen.up_share, 560 * 5.5 / (400 * 348), 0.004);
}

TEST(FailureTraceTest, EventsOfOneInstantAreOneLossAndReplacementsComeFirst) {
  const auto trace = parse_instance_trace(
      "0,add,a\n0,add,b\n0,add,c\n60000,remove,a\n60000,remove,c\n60000,add,d\n", "t");
  ASSERT_TRUE(trace.ok());
  ASSERT_EQ(trace->events.size(), 2u);
  EXPECT_EQ(trace->events[0].kind, Kind::kUp);
  EXPECT_EQ(trace->events[1].nodes, (std::vector<int>{0, 2}));
  EXPECT_EQ(trace->events[1].seconds, 60);
}

TEST(FailureTraceTest, FaultsWithoutLengthAreCrashesAndOverlapsOneDownTime) {
  const std::string header = "time_days,node,event,level,class,desc\n";
  const auto trace = parse_fault_trace(header +
                                           "1,a,fault_start,H,c,d\n1,a,fault_end,H,c,d\n2,b,fault_"
                                           "start,H,c,d\n3,b,fault_start,O,c,d\n"
                                           "3,b,fault_end,H,c,d\n4,b,fault_end,O,c,\"d, e\"\n",
                                       "t", 3);
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->events.size(), 3u);
  EXPECT_EQ(trace->events[0].kind, Kind::kCrash);
  EXPECT_EQ(trace->events[1].kind, Kind::kDown);
  EXPECT_EQ(trace->events[2].seconds, 4 * kDay);
  EXPECT_EQ(trace->nodes.size(), 3u);
}

TEST(FailureTraceTest, WrongLinesAreNamed) {
  auto why = [](const absl::StatusOr<FailureTrace>& trace) {
    return std::string(trace.status().message());
  };
  EXPECT_EQ(why(parse_instance_trace("0,add,a\n5,drop,a\n", "f.csv")),
            "f.csv:2: found \"5,drop,a\", allowed: time_ms,add|remove,node");
  EXPECT_EQ(why(parse_instance_trace("9,add,a\n5,add,b\n", "f.csv")),
            "f.csv:2: found \"5\", allowed: times that never fall");
  EXPECT_EQ(
      why(parse_instance_trace("0,remove,a\n", "f.csv")),
      "f.csv:1: found \"0,remove,a\", allowed: a node is added once and then removed at most once");
  EXPECT_FALSE(parse_instance_trace("", "f.csv").ok());
  EXPECT_FALSE(parse_fault_trace("nope\n", "f.csv", 4).ok());
  EXPECT_FALSE(
      parse_fault_trace("time_days,node,event,level,class,desc\n1,a,fault_end,H,c,d\n", "f", 1)
          .ok());
}

}  // namespace
}  // namespace evermoe
