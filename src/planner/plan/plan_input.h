// What a plan is made from: a model with its batch, a cluster, and what may be spent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job_config.h"
#include "env/files.h"
#include "planner/cluster_model/cluster_spec.h"
#include "planner/cost/cost_shape.h"
#include "planner/cost/step_forecast.h"

namespace evermoe {

struct PlannedModel {
  std::string name;  // the preset or file that was named
  CostShape shape;
  Precision precision = Precision::kBf16;
  int64_t sequences = 0;            // of one step; 0: about 8192 tokens for each GPU
  std::optional<JobLayout> layout;  // none: chosen for the cluster
  int tensor_parallel = 0;          // GPUs of a lane; 0: as the layout has it, or chosen
  std::optional<ActivationRecompute> recompute =
      std::nullopt;  // none: as the layout has it, or chosen
};

// What a person may ask of the layout. InvalidInput where the model's configuration has another
// batch, or for wrong values.
struct LayoutWishes {
  int64_t sequences = 0;           // 0: as the model has it
  int tensor_parallel = 0;         // 0: chosen
  std::string recompute = "auto";  // or none, experts, layer
};
absl::Status apply_layout(const LayoutWishes& wishes, PlannedModel& model);

// What of a model the runtime cannot train on this layout, and so can only be forecast. Empty if it
// can.
std::string missing_in_runtime(const PlannedModel& model, const JobLayout& layout);

struct PlanBudget {
  double host_bytes_per_gpu = 0;     // for snapshots, copies and logs; 0: half of the node's memory
  double stall_share_max = 0.05;     // by which saves and captures may lengthen a mean step
  double lost_share_max = 0;         // LOSSY: of the run's tokens; 0: no lossy strategy
  int copies = 2;                    // wanted of each snapshot
  int window = 0;                    // steps of a sparse window; 0: chosen
  int64_t save_every = 0;            // steps between saves of everything; 0: chosen
  int spares_max = -1;               // -1: as many as spares_probability asks for
  double spares_probability = 0.99;  // that spares suffice until repair
  bool elastic = true;               // whether training on fewer nodes is acceptable
  int simulated_runs = 8;            // per candidate
  friend bool operator==(const PlanBudget&, const PlanBudget&) = default;
};

struct PlanInput {
  PlannedModel model;
  ClusterSpec cluster;
  PlanBudget budget;
};

// The model of a job's configuration, with its layout and batch.
PlannedModel planned_model(const JobConfig& config, const std::string& name);

// A job as it is configured: what a forecast is of.
struct PlannedJob {
  PlannedModel model;
  ProtectionConfig protection;
  CheckpointConfig checkpoint;
};

// `argument` is the name of a preset, or the path of a job's configuration if it ends in ".toml"
// (its data is not looked at). `settings` are "key=value" of a configuration (config/job_config.h).
// A preset has no layout of its own unless a setting is about [parallel] or micro-batches, and no
// limits unless they are set: memory_budget is then 0 (half of a node's host memory),
// copy_bandwidth all that a link has. InvalidInput with one line for anything else.
absl::StatusOr<PlannedJob> load_planned_job(Files& files, const std::string& argument,
                                            const std::vector<std::string>& settings);
absl::StatusOr<PlannedModel> load_planned_model(Files& files, const std::string& argument);

// The layout the plan is for, and the step that follows from it. InvalidInput if the model's own
// layout does not fit the cluster, NoCapacity if none does.
struct PlannedStep {
  JobLayout layout;
  StepForecast step;
  std::string batch;  // who chose it: "as given", or that it was chosen and grows with the cluster
};
absl::StatusOr<PlannedStep> plan_step(const PlannedModel& model, const ClusterSpec& cluster);

// InvalidInput for a budget out of range, by field.
absl::Status check(const PlanBudget& budget);

}  // namespace evermoe
