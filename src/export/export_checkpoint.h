// A checkpoint as a folder that transformers' from_pretrained() loads.
//
// Streams operator by operator: memory for the largest operator's master weights and a few
// megabytes, whatever the size of the model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/read/checkpoint_reader.h"
#include "env/files.h"
#include "export/export_plan.h"
#include "export/tokenizer_files.h"

namespace evermoe {

struct ExportOptions {
  // A file of weights takes no further tensor beyond this size (a single larger tensor has a file
  // of its own). More than one file: they are numbered and listed in model.safetensors.index.json.
  int64_t file_bytes_max = 5'000'000'000;
  // Written beside the weights: the tokenizer's.
  std::vector<ExportFile> files;
};

struct ExportSummary {
  std::vector<std::string> weight_files;
  int64_t parameters = 0;  // of the model, without zeros for what it has not
  int64_t bytes = 0;       // of the tensors
};

// Writes config.json, generation_config.json, the weights and `options.files` into the new folder
// `out`, which appears complete under its name or not at all (a folder `out`.exporting that a
// killed export left is replaced). It is durable when ok is returned.
//   InvalidInput  `out` exists and is not an empty folder
//   NoCapacity    the disk cannot hold it; found before anything is read
//   Corrupt       the checkpoint's operators are not those of the plan, or are damaged
absl::StatusOr<ExportSummary> export_checkpoint(Files& files, CheckpointReader& checkpoint,
                                                const ExportPlan& plan, const std::string& out,
                                                const ExportOptions& options);

}  // namespace evermoe
