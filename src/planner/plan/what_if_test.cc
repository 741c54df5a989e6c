// Plans of one model for many cluster sizes.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "planner/failures/spare_demand.h"
#include "planner/plan/plan_testing.h"
#include "planner/plan/what_if.h"
#include "planner/report/plan_report.h"

namespace evermoe {
namespace {

TEST(WhatIfTest, UpTo131072Gpus) {
  PlanInput input{.cluster = default_cluster()};
  input.cluster.failures.whole_job_node_seconds = 0;
  input.model = load_planned_model(real_files(), "mixtral-8x7b").value();
  input.budget.simulated_runs = 2;
  const std::vector<int> scales{8, 1024, 131072};
  const auto rows = what_if_scale(input, scales);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_NE((*rows)[0].refused.find("no layout fits"), std::string::npos);
  // Meta's 6.5 failures per 1000 node-days: 28.8 h and the "14 minutes".
  EXPECT_NEAR((*rows)[1].job_mtbf_seconds, 28.8 * kHour, 0.1 * kHour);
  EXPECT_NEAR((*rows)[2].job_mtbf_seconds, 13.52 * 60, 1);
  EXPECT_GT((*rows)[1].ettr.mean, (*rows)[2].ettr.mean);
  EXPECT_GT((*rows)[2].ettr.mean, 0.9);
  EXPECT_EQ((*rows)[2].spares_wanted, spares_needed(input.cluster.failures, 16384, 0, 0.99, 1000));
  EXPECT_NE(to_text(*rows).find("131072"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(to_json(*rows)).size(), 3u);
  EXPECT_FALSE(what_if_scale(input, std::vector<int>{12}).ok());
  EXPECT_EQ(usual_scales(16).front(), 64);
}

TEST(WhatIfTest, ARiseWithTheSizeIsExplained) {
  ScaleRow small{.gpus = 64,
                 .nodes = 8,
                 .strategy = "durable, restart",
                 .ettr = {.mean = 0.9, .low = 0.89, .high = 0.91}};
  ScaleRow large{.gpus = 512,
                 .nodes = 64,
                 .strategy = "sparse, standby, 2 spares",
                 .ettr = {.mean = 0.95, .low = 0.94, .high = 0.96},
                 .spares = 2};
  small.estimates.rework_share.mean = 0.08;
  large.estimates.rework_share.mean = 0.01;
  const std::vector<ScaleRow> rows{small, large};
  const auto why = explain_rises(rows);
  ASSERT_EQ(why.size(), 1u);
  EXPECT_EQ(why[0],
            "From 64 to 512 GPUs the ETTR rises from 90.00 % to 95.00 %: the most is saved on lost "
            "work (8.00 % to 1.00 %), because another plan is "
            "the best: sparse, standby, 2 spares instead of durable, restart. Idle spares are 3.03 "
            "% of all nodes (0.00 % before), which the ETTR does "
            "not count.");
  EXPECT_NE(to_text(rows).find("The batch grows with the GPUs"), std::string::npos);
  EXPECT_TRUE(explain_rises(std::vector<ScaleRow>{large, small}).empty());
}

}  // namespace
}  // namespace evermoe
