// How long a step takes and what it holds in memory, from shapes and a cluster, without running it.
//
//   step = pipeline (rounds under 1F1B, played with each stage's times) + gradient reduction + update + verdict
//
// A round of a stage takes its operators' work at the efficiency of the GPU (or the time to read their weights,
// if that is longer), the all-to-alls of its MoE layers, and a message to the next stage. Experts get
// equal shares of the tokens, and the lanes that together hold every expert once are neighbours, so that with one
// replica for each node tokens stay inside nodes. Nothing overlaps but what overlaps in the pipeline: an upper estimate. Absolute
// times are good to a factor of about 1.4 (MoEtion's four models); measure and use a measured profile where that matters.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job_config.h"
#include "forecast/cluster_spec.h"
#include "forecast/collectives.h"
#include "forecast/job_profile.h"
#include "model/model_shape.h"

namespace evermoe {

// How a model is laid over GPUs, and the batch.
struct JobLayout {
  std::vector<int> lanes = {1};   // by stage
  int expert_replicas = 1;
  int64_t micro_batches = 8;      // of a whole step
  int64_t micro_batch_size = 1;   // sequences
  Precision precision = Precision::kBf16;

  int gpus() const;
  friend bool operator==(const JobLayout&, const JobLayout&) = default;
};

struct StepParts {
  double pipeline_seconds = 0;
  double bubble_share = 0;       // of the pipeline: what the busiest stage waits
  double reduction_seconds = 0;
  double update_seconds = 0;
  double verdict_seconds = 0;
  double step_seconds() const { return pipeline_seconds + reduction_seconds + update_seconds + verdict_seconds; }
  double used_flops_share = 0;   // work of the model over the peak of all GPUs ("MFU")
};

struct StepForecast {
  StepParts parts;
  JobProfile profile;
};

// Of a GPU's memory: the rest is for the framework and fragmentation.
double usable_gpu_bytes(const ClusterSpec& cluster);

Fabric fabric_of(const ClusterSpec& cluster);

// InvalidInput if the layout needs another number of GPUs than the cluster has for the job, or the model
// cannot be cut that way.
absl::StatusOr<StepForecast> forecast_step(const ModelShape& shape, const JobLayout& layout, const ClusterSpec& cluster);

// The layout with the shortest step among equal widths that fill the cluster, fit its GPUs' memory and divide
// `sequences` (of one step) into micro-batches, at least one per lane. Experts get replicas where lanes are
// many, or for each node. NoCapacity if none fits the memory: it says how much the best would need.
absl::StatusOr<JobLayout> choose_layout(const ModelShape& shape, const ClusterSpec& cluster, int64_t sequences,
                                        Precision precision);

}  // namespace evermoe
