// The checkpoint that a command was given, as every command that takes one understands it.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "checkpoint/read/checkpoint_reader.h"
#include "config/job_config.h"
#include "env/files.h"

namespace evermoe {

// What --help says about the argument.
inline constexpr char kCheckpointHelp[] =
    "a checkpoint folder; or a job's output folder, for its newest checkpoint";

// InvalidInput if `path` leads to no checkpoint: the user named the wrong place. A checkpoint that
// is there but damaged is Corrupt or, where one of its files is missing, NotFound; both name the
// file.
absl::StatusOr<std::unique_ptr<CheckpointReader>> open_checkpoint(Files& files,
                                                                  const std::string& path);

// The folder that open_checkpoint() takes for `path`; InvalidInput as above.
absl::StatusOr<std::string> find_checkpoint(Files& files, const std::string& path);

// The configuration of the job that saved it. Corrupt if it cannot be understood: nobody typed it.
absl::StatusOr<JobConfig> stored_configuration(const CheckpointReader& checkpoint);

}  // namespace evermoe
