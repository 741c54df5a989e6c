#include "control/wire/incident_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using testing::Eq;
using testing::Optional;

Plan plan(int64_t incident) {
  Plan plan;
  plan.view = View(5);
  plan.reasons = {"stage 1 goes back", "1.0 is new"};
  plan.incident = incident;
  return plan;
}

TEST(IncidentLines, WhatAWorkerIsToldOfAnIncident) {
  IncidentLines lines;
  EXPECT_THAT(lines.on_order(StopOrder{View(5), 3}), Optional(Eq("incident 3: stop for view 5")));
  EXPECT_THAT(lines.on_order(plan(3)),
              Optional(Eq("incident 3: view 5 opens: stage 1 goes back; 1.0 is new")));
}

TEST(IncidentLines, WhatBelongsToNoneIsNotTold) {
  IncidentLines lines;
  EXPECT_EQ(lines.on_order(StopOrder{View(5)}), std::nullopt);
  EXPECT_EQ(lines.on_order(plan(0)), std::nullopt);
  EXPECT_EQ(lines.on_order(ReleaseOrder{}), std::nullopt);
  EXPECT_EQ(lines.on_envelope(StartWorker{Node(1), Rank(2), View(1)}), std::nullopt);
  EXPECT_EQ(lines.on_envelope(Beat{}), std::nullopt);
}

TEST(IncidentLines, AnAgentSaysOnceWhatAllItsWorkersAreTold) {
  IncidentLines lines;
  const auto stop = [&](int rank, uint32_t view) {
    return lines.on_envelope(SendOrder{Rank(rank), View(1), StopOrder{View(view), 3}});
  };
  EXPECT_TRUE(stop(0, 5));
  EXPECT_FALSE(stop(1, 5));
  EXPECT_TRUE(stop(0, 6));
  EXPECT_THAT(lines.on_envelope(StartWorker{Node(1), Rank(2), View(5), 3}),
              Optional(Eq("incident 3: the worker of rank 2 starts here")));
  EXPECT_THAT(lines.on_envelope(update_of(nullptr, plan(3))),
              Optional(Eq("incident 3: view 5 opens: stage 1 goes back; 1.0 is new")));
}

}  // namespace
}  // namespace evermoe
