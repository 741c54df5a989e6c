#include "cli/checkpoint_argument.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "checkpoint/format/checkpoint_names.h"
#include "checkpoint/read/checkpoint_directory.h"

namespace evermoe {

absl::StatusOr<std::string> find_checkpoint(Files& files, const std::string& path) {
  const std::vector<std::string> found = candidate_checkpoints(files, path);
  if (!found.empty() && files.is_directory(found.front())) return found.front();
  const char* const what = !files.exists(path)         ? "no such folder"
                           : !files.is_directory(path) ? "not a folder"
                                                       : "no checkpoint in it";
  return InvalidInput(absl::StrCat(path, ": ", what, ", allowed: ", kCheckpointHelp));
}

absl::StatusOr<std::unique_ptr<CheckpointReader>> open_checkpoint(Files& files,
                                                                  const std::string& path) {
  ASSIGN_OR_RETURN(const std::string found, find_checkpoint(files, path));
  return CheckpointReader::open(files, found);
}

absl::StatusOr<JobConfig> stored_configuration(const CheckpointReader& checkpoint) {
  const std::string origin =
      absl::StrCat(join_path(checkpoint.path(), kManifestName), ": the stored configuration");
  absl::StatusOr<JobConfig> config =
      parse_config(checkpoint.position().configuration, origin, checkpoint.path(), {});
  if (config.ok()) return config;
  return Corrupt(std::string(config.status().message()));
}

}  // namespace evermoe
