// What a configuration will train and what it will cost, counted without training it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/job_config.h"

namespace evermoe {

// Bytes of live state: of the whole model, or of one rank.
struct StateBytes {
  int64_t weights = 0;    // in the compute type; with fp8 also as the layers read them
  int64_t gradients = 0;  // accumulated in fp32, with fp64 in fp64
  int64_t optimizer = 0;  // moments, and master weights where they are not the compute weights
  int64_t sum() const { return weights + gradients + optimizer; }
};

struct ModelReport {
  struct Kind {
    std::string name;
    int64_t operators = 0;
    int64_t parameters = 0;
  };
  struct PrecisionRow {
    std::string name;
    StateBytes bytes;  // one instance of every operator, nothing twice
  };
  struct StageRow {
    int64_t first_layer = 0;
    int64_t end_layer = 0;
    int64_t lanes = 0;
    int64_t parameters = 0;
    int64_t experts_per_lane_max = 0;  // of one layer
    StateBytes rank_max;               // of the lane that holds most, in the configured precision
    int64_t activations = 0;  // of a rank at the peak of a step, experts' rows evenly shared
    int64_t deferred = 0;     // beside them, kept for gradients of weights that are put off
    int64_t rank_sum() const { return rank_max.sum() + activations + deferred; }
  };
  ParameterCounts counts;
  std::vector<Kind> kinds;
  std::vector<PrecisionRow> precisions;  // the configured one last, if it is none of the others
  TrainTypes types;                      // as configured
  std::vector<StageRow> stages;
  // Of a worker, beside all this, at most: what waits for its service thread, but for one message
  // more of each worker that sends it any. 0 where there is one worker.
  int64_t waiting_messages = 0;
};

ModelReport report_model(const JobConfig& config);

std::string to_text(const ModelReport& report, const JobConfig& config);
// One JSON object.
std::string to_json(const ModelReport& report, const JobConfig& config);

}  // namespace evermoe
