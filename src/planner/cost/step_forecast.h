// How long a step takes and what it holds in memory, from shapes and a cluster, without running it.
//
//   step = pipeline (rounds under 1F1B, played with each stage's times)
//          + gradient reduction + update + verdict
//
// A round of a stage takes its operators' work at the efficiency of the GPU (or the time to read
// their weights, if that is longer), the all-to-alls of its MoE layers, and a message to the next
// stage. With tensor parallelism of degree t every lane is t neighbouring GPUs of a node, each with
// a t-th of every matrix and, between the products, of the tokens: two all-reduces of the
// activations per layer and direction (as a gather and a reduce-scatter), and the tokens of experts
// are gathered and scattered again. Activations that are not kept are computed again in the
// backward pass. Experts get equal shares of the tokens, and the lanes that together hold every
// expert once are neighbours, so that with one replica for each node tokens stay inside nodes.
// Nothing overlaps but what overlaps in the pipeline: an upper estimate. Absolute times are good to
// a factor of about 1.4 (MoEtion's four models); measure and use a measured profile where that
// matters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job_config.h"
#include "planner/cluster_model/cluster_spec.h"
#include "planner/cluster_model/collectives.h"
#include "planner/cost/cost_shape.h"
#include "planner/cost/job_profile.h"

namespace evermoe {

// What of a layer's activations is computed again in the backward pass instead of kept.
enum class ActivationRecompute : uint8_t {
  kNone,
  kExperts,  // inside the experts: the tokens that came to them are kept
  kLayer,    // everything but the layer's input, the exchange of tokens included
};
const char* to_string(ActivationRecompute recompute);  // "none", "experts", "layer"
absl::StatusOr<ActivationRecompute> parse_recompute(const std::string& name);

// How a model is laid over GPUs, and the batch.
struct JobLayout {
  std::vector<int> lanes = {1};  // by stage
  int tensor_parallel = 1;       // GPUs of each lane, all in one node
  int expert_replicas = 1;
  int64_t micro_batches = 8;     // of a whole step
  int64_t micro_batch_size = 1;  // sequences
  Precision precision = Precision::kBf16;
  ActivationRecompute recompute = ActivationRecompute::kNone;

  int gpus() const;
  friend bool operator==(const JobLayout&, const JobLayout&) = default;
};

struct StepParts {
  double pipeline_seconds = 0;
  double bubble_share = 0;  // of the pipeline: what the busiest stage waits
  double reduction_seconds = 0;
  double update_seconds = 0;
  double verdict_seconds = 0;
  double step_seconds() const {
    return pipeline_seconds + reduction_seconds + update_seconds + verdict_seconds;
  }
  double used_flops_share = 0;  // work of the model over the peak of all GPUs ("MFU")
};

struct StepForecast {
  StepParts parts;
  JobProfile profile;
};

// Of a GPU's memory: the rest is for the framework and fragmentation.
double usable_gpu_bytes(const ClusterSpec& cluster);

Fabric fabric_of(const ClusterSpec& cluster);
// Between lanes of so many GPUs: fewer of them in a node.
Fabric lane_fabric(const ClusterSpec& cluster, int lanes_per_node);

// InvalidInput if the layout needs another number of GPUs than the cluster has for the job, or the
// model cannot be cut that way.
absl::StatusOr<StepForecast> forecast_step(const CostShape& shape, const JobLayout& layout,
                                           const ClusterSpec& cluster);

// What choose_layout() may choose from.
struct LayoutChoice {
  int64_t sequences = 1;  // of one step
  Precision precision = Precision::kBf16;
  int tensor_parallel = 0;  // 0: 1, or, if nothing fits, the least of 2, 4, 8, ... within a node
                            // with which something does
  std::optional<ActivationRecompute> recompute;  // none: for each layout the least that fits
};

// The layout with the shortest step among equal widths that fill the cluster, fit its GPUs' memory
// and divide the sequences into micro-batches, at least one per lane. Experts get replicas where
// lanes are many, or for each node. NoCapacity if none fits the memory: it says how much the best
// would need.
absl::StatusOr<JobLayout> choose_layout(const CostShape& shape, const ClusterSpec& cluster,
                                        const LayoutChoice& choice);

}  // namespace evermoe
