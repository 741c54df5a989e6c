// Nodes that are down at an instant: the closed form against dumb enumeration, and against sources
// that are watched.
#include "planner/failures/spare_demand.h"

#include <gtest/gtest.h>

#include <vector>

#include "planner/failures/availability.h"
#include "planner/simulate/estimate.h"

namespace evermoe {
namespace {

using Kind = AvailabilityEvent::Kind;

constexpr double kHourSeconds = 3600, kDaySeconds = 86400;

// Every node and every rack is up or down by itself: all combinations, one by one.
double enumerated(double node_down, double rack_down, int nodes, int racks, int most) {
  double sum = 0;
  for (unsigned state = 0; state < 1u << (nodes + racks); ++state) {
    double weight = 1;
    int down = 0;
    for (int unit = 0; unit < nodes + racks; ++unit) {
      const double share = unit < nodes ? node_down : rack_down;
      weight *= state >> unit & 1 ? share : 1 - share;
    }
    for (int node = 0; node < nodes; ++node) {
      down += (state >> node & 1) || (state >> (nodes + rack_of(node, nodes, racks)) & 1);
    }
    if (down <= most) sum += weight;
  }
  return sum;
}

TEST(SpareDemandTest, TheFormulaIsTheSumOverAllStates) {
  const FailureLaw law{.node_mtbf_seconds = 9 * kHourSeconds,
                       .repair_seconds = kHourSeconds,
                       .rack_mtbf_seconds = 3 * kHourSeconds,
                       .rack_repair_seconds = kHourSeconds};
  for (const auto& [nodes, racks] :
       {std::pair(6, 2), std::pair(7, 3), std::pair(5, 5), std::pair(8, 1)}) {
    for (int most = 0; most <= nodes; ++most) {
      EXPECT_NEAR(at_most_down(law, nodes, racks, most), enumerated(0.1, 0.25, nodes, racks, most),
                  1e-12)
          << most << " of " << nodes << " in " << racks << " racks";
    }
  }
}

// The share of the time in which at most `most` nodes are down.
double watched(AvailabilitySource& source, double seconds, int most) {
  double share = 0, last = 0;
  int down = 0;
  for (auto event = source.next(); event && event->seconds < seconds; event = source.next()) {
    if (down <= most) share += (event->seconds - last) / seconds;
    last = event->seconds;
    const int count = static_cast<int>(event->nodes.size());
    if (event->kind == Kind::kUp) down -= count;
    if (event->kind == Kind::kDown || event->kind == Kind::kAnnounced) down += count;
  }
  return share + (down <= most ? (seconds - last) / seconds : 0);
}

TEST(SpareDemandTest, WhatSourcesDoIsWhatTheFormulaSays) {
  const FailureLaw nodes_only{.node_mtbf_seconds = 40 * kDaySeconds,
                              .shape = 0.7,
                              .aged = false,
                              .repair_seconds = 2 * kDaySeconds,
                              .crash_share = 0.3};
  const FailureLaw with_racks{.node_mtbf_seconds = 100 * kDaySeconds,
                              .repair_seconds = kDaySeconds,
                              .announced_share = 0.2,
                              .rack_mtbf_seconds = 1000 * kHourSeconds,
                              .rack_repair_seconds = kDaySeconds};
  struct Case {
    FailureLaw law;
    int nodes, racks, most;
  };
  for (const Case& c : {Case{nodes_only, 60, 0, 2}, Case{with_racks, 64, 8, 1},
                        Case{with_racks, 64, 8, 9}, Case{with_racks, 70, 32, 5}}) {
    std::vector<double> shares;
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      shares.push_back(
          watched(*draw_availability(c.law, c.nodes, c.racks, seed), 3000 * kDaySeconds, c.most));
    }
    const Estimate estimate = estimate_mean(shares);
    EXPECT_NEAR(estimate.mean, at_most_down(c.law, c.nodes, c.racks, c.most),
                4 * estimate.error + 0.002)
        << c.nodes << " nodes, at most " << c.most;
    EXPECT_LT(estimate.error, 0.01);
  }
}

TEST(SpareDemandTest, SparesAreTheLeastThatSuffice) {
  const FailureLaw law{.node_mtbf_seconds = 100 * kDaySeconds,
                       .repair_seconds = kDaySeconds,
                       .rack_mtbf_seconds = 1000 * kHourSeconds,
                       .rack_repair_seconds = kDaySeconds};
  for (const int racks : {0, 16, 256}) {
    for (const double probability : {0.5, 0.95, 0.99}) {
      const auto spares = spares_needed(law, 256, racks, probability, 1000);
      ASSERT_TRUE(spares.has_value()) << racks;
      EXPECT_GE(at_most_down(law, 256 + *spares, racks, *spares), probability);
      if (*spares > 0) {
        EXPECT_LT(at_most_down(law, 256 + *spares - 1, racks, *spares - 1), probability);
      }
    }
  }
  EXPECT_GT(*spares_needed(law, 256, 16, 0.99, 1000), *spares_needed(law, 256, 0, 0.99, 1000) + 16);
}

// One rack that is down too often: no spares of the same rack help.
TEST(SpareDemandTest, NoNumberMaySuffice) {
  const FailureLaw law{.node_mtbf_seconds = 100 * kDaySeconds,
                       .repair_seconds = kDaySeconds,
                       .rack_mtbf_seconds = 30 * kDaySeconds,
                       .rack_repair_seconds = kDaySeconds};
  EXPECT_EQ(spares_needed(law, 16, 1, 0.99, 10000), std::nullopt);
  EXPECT_NEAR(mean_down(law, 16, 1), 16 * (1 - 100.0 / 101 * 30 / 31), 1e-12);
}

}  // namespace
}  // namespace evermoe
