// What is in a checkpoint, from its manifest alone: no weights are read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "checkpoint/read/checkpoint_reader.h"
#include "cli/reports/expert_ages.h"
#include "config/job_config.h"

namespace evermoe {

struct CheckpointReport {
  // Operators of one kind; those whose name tells none are of kind "other".
  struct Kind {
    std::string name;
    int64_t operators = 0;
    int64_t elements = 0;  // of one part
    int64_t bytes = 0;     // of all parts
  };
  struct File {
    std::string name;  // with the folder if it is an older checkpoint's
    int rank = 0;
    int64_t shards = 0;
    int64_t bytes = 0;  // of an older checkpoint's only what is taken from it
  };
  std::string path;
  Manifest manifest;
  std::vector<Kind> kinds;  // without empty ones
  std::vector<File> files;
  int64_t shards = 0;
  int64_t bytes = 0;  // of all files
  ExpertAges ages;
  // The job that saved it; nullopt with the reason if its configuration cannot be understood.
  std::optional<JobConfig> config;
  std::string config_problem;
};

CheckpointReport report_checkpoint(const CheckpointReader& checkpoint);

std::string to_text(const CheckpointReport& report);
// One JSON object.
std::string to_json(const CheckpointReport& report);

}  // namespace evermoe
