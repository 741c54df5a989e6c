// A job and a cluster small enough to count, and plans for them.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "planner/plan/protection_plan.h"

namespace evermoe {

inline constexpr double kHour = 3600, kDay = 86400;

// 4 stages of 2 nodes with one GPU each; every stage has 10 operators of 1 GB (12 : 2 bytes), steps
// of 10 s.
inline JobProfile small_job() {
  JobProfile job;
  job.step_seconds = 10;
  job.update_seconds = 0.1;
  job.tokens_per_step = 1e6;
  job.stages = 4;
  job.lanes = {2, 2, 2, 2};
  job.rounds = 8;
  job.lanes_per_node = 1;
  job.nodes = 8;
  std::vector<OperatorProfile> operators;
  for (int e = 0; e < 10; ++e) {
    operators.push_back({.expert = e,
                         .cost = {1'000'000'000, 142'857'142},
                         .forward_seconds = 0.5,
                         .gradient_seconds = 0.25});
  }
  job.operators_of_stage.assign(4, operators);
  job.popularity.assign(10, 1);
  job.experts = 10;
  job.state_bytes = 8 * 10 * 1e9 * 12 / 14;
  job.expert_state_bytes = job.state_bytes;
  job.log_bytes = 10'000'000;
  return job;
}

inline ClusterSpec small_cluster(double host_gb_per_second) {
  ClusterSpec cluster = default_cluster();
  cluster.nodes = 8;
  cluster.gpus_per_node = 1;
  cluster.gpu.host_bytes_per_second = host_gb_per_second * 1e9;
  cluster.nic_bytes_per_second = 25e9;
  cluster.host_memory_bytes = 500e9;
  cluster.failures = {.node_mtbf_seconds = 8 * kHour};
  cluster.capture_overhead_share = 0;
  return cluster;
}

inline ProtectionPlan planned(const JobProfile& job, const ClusterSpec& cluster,
                              const PlanBudget& budget = {}, int expert_replicas = 1) {
  const JobLayout layout{.lanes = job.lanes, .expert_replicas = expert_replicas};
  const auto plan = plan_protection("small", layout, {.profile = job}, cluster, budget);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

// Of bad input.
inline std::string message_of(const absl::Status& status) {
  EXPECT_EQ(exit_code(status), 2);
  return std::string(status.message());
}

}  // namespace evermoe
