// What a trainer is given by the process that it runs in.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <string>

#include "checkpoint/write/folder_term.h"
#include "comm/transport/transport.h"
#include "data/token_source.h"
#include "env/files.h"

namespace evermoe {

// What it points to outlives the trainer.
struct TrainerEnvironment {
  c10::Device device = c10::kCPU;  // that this rank computes on; use_device() was called
  Transport* transport = nullptr;
  Files* files = nullptr;
  std::string checkpoint_directory;
  // Of this machine's own disk, where every rank saves too; empty: nowhere. Empty on all ranks or
  // on none.
  std::string local_directory;
  // In whose name is saved, and whether that may be saved and published: SaverOptions.
  std::function<FolderTerm()> term;
  std::function<absl::Status()> may_write;
  std::function<absl::Status()> may_publish;
  // Told on the training thread of every save or publication of that step that the disk refused.
  // Training goes on. Null: nobody is.
  std::function<void(Step step, const absl::Status& why)> save_failed;
  std::string divergence_file;  // where the record of a diverged run goes; empty: nowhere
  // Where numbers that are not finite are examined (examiner.h), if train.non_finite says so.
  std::string forensics_directory;
  int32_t node = 0;  // that this process runs on
  // Told on the training thread what an examination has found of the node of the first attempt.
  // Null: nobody is.
  std::function<void(Step step, int32_t node, bool is_reproduced, const std::string& what)>
      examined;
  TokenPart training;
  TokenPart validation;
  View view;
};

}  // namespace evermoe
