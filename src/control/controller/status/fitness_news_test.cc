#include "control/controller/status/fitness_news.h"

#include <gtest/gtest.h>

#include "control/health/node_health.h"

namespace evermoe {
namespace {

TEST(FitnessNews, ThatAMachineIsNotFitAndThatItIsAgain) {
  EXPECT_EQ(fitness_news(Node(3), {}, {}), "");
  EXPECT_EQ(fitness_news(Node(3), {}, {"disk: full", "clock: wrong"}),
            "node 3 is left out: its machine is not fit to play a role: disk: full; clock: wrong");
  EXPECT_EQ(fitness_news(Node(3), {"disk: full"}, {}), "node 3 is fit again");
}

TEST(FitnessNews, WhatIsMeasuredChangesAllTheTime) {
  EXPECT_EQ(fitness_news(Node(3), {"disk: 1 MB free"}, {"disk: 2 MB free"}), "");
}

TEST(FitnessNews, WhatALateMeasurementFindsIsTold) {
  EXPECT_EQ(fitness_news(Node(3), {kNotMeasured}, {kNotMeasured}), "");
  EXPECT_EQ(fitness_news(Node(3), {kNotMeasured}, {"disk: full"}),
            "node 3 is left out: its machine is not fit to play a role: disk: full");
}

}  // namespace
}  // namespace evermoe
