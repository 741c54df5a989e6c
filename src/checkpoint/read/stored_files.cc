#include "checkpoint/read/stored_files.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "checkpoint/format/checkpoint_names.h"

namespace evermoe {
namespace {

// The folder of an older checkpoint beside this one.
std::string older_folder(Files& files, const std::string& checkpoint, Step step) {
  const std::string name = base_name(checkpoint);
  bool is_here = name == kLatestName;
  for (const char* suffix : {"", kReplacedSuffix, kTemporarySuffix}) {
    is_here |= parse_step_directory(name, suffix).has_value();
  }
  // Under any other name it may be a link: its neighbours are those of what it points to.
  const std::string beside = is_here ? parent_directory(checkpoint) : join_path(checkpoint, "..");
  const std::string folder = join_path(beside, step_directory_name(step));
  const std::string replaced = absl::StrCat(folder, kReplacedSuffix);
  return files.exists(replaced) && !files.exists(folder) ? replaced : folder;
}

absl::Status check_size(Files& files, const std::string& path, int64_t wanted) {
  ASSIGN_OR_RETURN(const int64_t bytes, files.file_size(path));
  if (bytes == wanted) return absl::OkStatus();
  return Corrupt(absl::StrCat(path, ": has ", bytes, " bytes, the manifest says ", wanted));
}

// A run that went back may have saved an older step again, with other bytes of the same sizes: then
// that folder's manifest tells. If that is gone or damaged, the fingerprints do when the bytes are
// read.
absl::Status check_older(Files& files, const std::string& checkpoint, const Manifest& manifest,
                         Step step) {
  const std::string folder = older_folder(files, checkpoint, step);
  const std::string name = join_path(folder, kManifestName);
  const absl::StatusOr<std::string> text = read_file(files, name, kManifestBytesMax);
  if (!text.ok()) return absl::IsNotFound(text.status()) ? absl::OkStatus() : text.status();
  const auto older = parse_manifest(*text, ManifestKind::kCheckpoint, name);
  if (!older.ok()) return absl::OkStatus();
  if (older->position.step == step) return check_source(manifest, *older, folder);
  return Corrupt(absl::StrCat(name, ": holds step ", older->position.step.value));
}

}  // namespace

std::vector<std::string> file_paths(Files& files, const std::string& checkpoint,
                                    const Manifest& manifest) {
  std::map<Step, std::string> folders = {{Step(-1), checkpoint}};
  for (Step step : needed_steps(manifest)) folders[step] = older_folder(files, checkpoint, step);
  std::vector<std::string> paths;
  for (const ManifestFile& file : manifest.files) {
    paths.push_back(join_path(folders.at(file.step), file.name));
  }
  return paths;
}

std::vector<absl::Status> file_problems(Files& files, const std::string& checkpoint,
                                        const Manifest& manifest) {
  std::vector<absl::Status> problems;
  const auto note = [&](const absl::Status& status) {
    if (!status.ok()) problems.push_back(status);
  };
  const std::vector<std::string> paths = file_paths(files, checkpoint, manifest);
  for (size_t i = 0; i < paths.size(); ++i) {
    note(check_size(files, paths[i], manifest.files[i].bytes));
  }
  if (!problems.empty()) return problems;  // a folder that was replaced would be named twice
  for (Step step : needed_steps(manifest)) note(check_older(files, checkpoint, manifest, step));
  return problems;
}

}  // namespace evermoe
