#include "cluster/job_folder.h"

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "store/checkpoint_reader.h"

namespace evermoe {
namespace {

// How long workers of a supervisor that was killed may take to die.
constexpr absl::Duration kLockPatience = absl::Seconds(10);

std::map<std::string, std::string> by_key(const std::string& identity) {
  std::map<std::string, std::string> values;
  const std::vector<std::string> lines = absl::StrSplit(identity, '\n', absl::SkipEmpty());
  for (const std::string& line : lines) {
    const size_t equals = line.find('=');
    if (equals != std::string::npos) values[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return values;
}

std::string value_or_none(const std::map<std::string, std::string>& values, const std::string& key) {
  const auto at = values.find(key);
  return at == values.end() ? "not set" : at->second;
}

}  // namespace

std::string identity_difference(const std::string& there, const std::string& here) {
  const auto old_values = by_key(there);
  const auto new_values = by_key(here);
  std::set<std::string> keys;
  for (const auto& [key, value] : old_values) keys.insert(key);
  for (const auto& [key, value] : new_values) keys.insert(key);
  std::vector<std::string> differences;
  for (const std::string& key : keys) {
    const std::string before = value_or_none(old_values, key);
    const std::string now = value_or_none(new_values, key);
    if (before != now) differences.push_back(absl::StrCat(key, " is ", before, " there and ", now, " here"));
  }
  return absl::StrJoin(differences, ", ");
}

absl::Status JobFolder::check_newest(Files& files, const JobConfig& config) {
  GoodCheckpoint newest = open_newest_good(files, join_path(path_, "checkpoints"), /*verify_contents=*/false);
  skipped_ = std::move(newest.skipped);
  if (newest.reader == nullptr) return absl::OkStatus();
  step_ = newest.reader->position().step;
  const std::string& there = newest.reader->position().model_identity;
  const std::string here = model_identity(config);
  if (there == here) return absl::OkStatus();
  return InvalidInput(absl::StrCat(newest.reader->path(), " is of another model: ", identity_difference(there, here),
                                   "; use the same values, or another --out"));
}

absl::StatusOr<std::unique_ptr<JobFolder>> JobFolder::prepare(Files& files, const JobConfig& config,
                                                              const std::string& path) {
  if (files.exists(path) && !files.is_directory(path)) {
    return InvalidInput(absl::StrCat("--out: found ", path, ", which is a file, allowed: a folder or a new name"));
  }
  RETURN_IF_ERROR(files.create_directories(path));
  ASSIGN_OR_RETURN(std::unique_ptr<OutputLock> lock, OutputLock::acquire(join_path(path, "run.lock"), kLockPatience));
  auto folder = std::unique_ptr<JobFolder>(new JobFolder(path, std::move(lock)));
  RETURN_IF_ERROR(folder->check_newest(files, config));
  RETURN_IF_ERROR(replace_file(files, folder->config(), to_toml(config)));
  return folder;
}

}  // namespace evermoe
