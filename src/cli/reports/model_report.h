// What a configuration will train and what it will cost, counted without training it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/job_config.h"
#include "config/memory/stage_memory.h"

namespace evermoe {

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
  ParameterCounts counts;
  std::vector<Kind> kinds;
  std::vector<PrecisionRow> precisions;  // the configured one last, if it is none of the others
  TrainTypes types;                      // as configured
  std::vector<StageMemory> stages;
  // Of a worker, beside all this, at most: what waits for its service thread, but for one message
  // more of each worker that sends it any. 0 where there is one worker.
  int64_t waiting_messages = 0;
};

ModelReport report_model(const JobConfig& config);

std::string to_text(const ModelReport& report, const JobConfig& config);
// One JSON object.
std::string to_json(const ModelReport& report, const JobConfig& config);

}  // namespace evermoe
