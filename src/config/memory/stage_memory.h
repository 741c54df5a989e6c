// The memory that the ranks of a stage need to train, counted before any is taken. Pure.
#pragma once

#include <cstdint>

#include "config/job_config.h"
#include "model/operator.h"
#include "parallel/topology.h"

namespace evermoe {

// Bytes of live state: of the whole model, or of one rank.
struct StateBytes {
  int64_t weights = 0;    // in the compute type; with fp8 also as the layers read them
  int64_t gradients = 0;  // accumulated in fp32, with fp64 in fp64
  int64_t optimizer = 0;  // moments, and master weights where they are not the compute weights
  int64_t sum() const { return weights + gradients + optimizer; }
  // An operator of `flat_size` elements of which `shard_size` are this rank's to update.
  void add(const TrainTypes& types, int64_t flat_size, int64_t shard_size);
};

struct StageMemory {
  int64_t first_layer = 0;
  int64_t end_layer = 0;
  int64_t lanes = 0;
  int64_t parameters = 0;
  int64_t experts_per_lane_max = 0;  // of one layer
  StateBytes rank_max;               // of the lane that holds most, in the configured precision
  int64_t activations = 0;           // of a rank at the peak of a step, experts' rows evenly shared
  int64_t deferred = 0;              // beside them, kept for gradients of weights that are put off
  int64_t rank_sum() const { return rank_max.sum() + activations + deferred; }
};

StageMemory stage_memory(const JobConfig& config, const Topology& topology, int stage);

}  // namespace evermoe
