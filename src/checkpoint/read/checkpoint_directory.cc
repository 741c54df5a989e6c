// Finding checkpoints by name.
#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "checkpoint/format/checkpoint_names.h"
#include "checkpoint/read/checkpoint_directory.h"
#include "checkpoint/read/checkpoint_reader.h"

namespace evermoe {
namespace {

// A folder's published checkpoints; empty where it cannot be listed.
std::vector<std::string> found_in(Files& files, const std::string& directory) {
  return list_checkpoints(files, directory).value_or(std::vector<std::string>());
}

}  // namespace

absl::StatusOr<std::vector<std::string>> list_checkpoints(Files& files,
                                                          const std::string& directory) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.list(directory));
  std::map<Step, std::string, std::greater<>> found;
  for (const std::string& name : names) {
    // Takes the place of a step whose replacement was interrupted between two renames.
    const std::optional<Step> replaced = parse_step_directory(name, kReplacedSuffix);
    if (replaced) found.emplace(*replaced, name);
    const std::optional<Step> step = parse_step_directory(name);
    if (step) found[*step] = name;
  }
  std::vector<std::string> paths;
  for (const auto& [step, name] : found) {
    const std::string path = join_path(directory, name);
    if (files.is_directory(path)) paths.push_back(path);
  }
  return paths;
}

std::vector<std::string> candidate_checkpoints(Files& files, const std::string& path) {
  const std::string name = base_name(path);
  const bool named = parse_step_directory(name) || parse_step_directory(name, kReplacedSuffix);
  if (named || files.exists(join_path(path, kManifestName))) return {path};
  for (const std::string& folder : {path, join_path(path, "checkpoints")}) {
    std::vector<std::string> found = found_in(files, folder);
    if (!found.empty()) return found;
  }
  // `latest` that points to nothing: its neighbours.
  if (name == kLatestName) return found_in(files, parent_directory(path));
  return {};
}

GoodCheckpoint open_newest_good(Files& files, const std::string& path, bool verify_contents) {
  GoodCheckpoint result;
  for (const std::string& candidate : candidate_checkpoints(files, path)) {
    absl::StatusOr<std::unique_ptr<CheckpointReader>> reader =
        CheckpointReader::open(files, candidate);
    if (!reader.ok()) {
      result.skipped.push_back(std::string(reader.status().message()));
      continue;
    }
    const std::vector<std::string> problems =
        verify_contents ? (*reader)->verify() : std::vector<std::string>();
    if (problems.empty()) {
      result.reader = *std::move(reader);
      return result;
    }
    result.skipped.push_back(
        problems.size() == 1 ? problems[0]
                             : absl::StrCat(problems[0], " (and ", problems.size() - 1, " more)"));
  }
  return result;
}

}  // namespace evermoe
