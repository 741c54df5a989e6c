#include "control/launch/job_folder.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "checkpoint/read/checkpoint_reader.h"
#include "config/identity.h"

namespace evermoe {
namespace {

// How long workers of a supervisor that was killed may take to die.
constexpr absl::Duration kLockPatience = absl::Seconds(10);

// Tried with a file: permissions alone do not tell whether a file system is read-only.
absl::Status make_writable(Files& files, const std::string& path) {
  const std::string probe = join_path(path, "run.probe");
  absl::Status status = files.create_directories(path);
  if (status.ok()) status = write_file_synced(files, probe, "");
  if (status.ok()) return files.remove_file(probe);
  if (!absl::IsPermissionDenied(status)) return status;
  const std::string message(status.message());
  return InvalidInput(absl::StrCat("--out: found ", path, ", which cannot be written",
                                   message.substr(message.rfind(": ")),
                                   ", allowed: a folder where you may create files"));
}

}  // namespace

absl::Status JobFolder::check_newest(Files& files, const JobConfig& config) {
  GoodCheckpoint newest =
      open_newest_good(files, join_path(path_, "checkpoints"), /*verify_contents=*/false);
  skipped_ = std::move(newest.skipped);
  if (newest.reader == nullptr) return absl::OkStatus();
  step_ = newest.reader->position().step;
  const std::string& there = newest.reader->position().model_identity;
  const std::string difference = identity_difference(there, model_identity(config));
  if (difference.empty()) return absl::OkStatus();
  return InvalidInput(absl::StrCat(newest.reader->path(), " is of another model: ", difference,
                                   "; use the same values, or another --out"));
}

absl::StatusOr<std::unique_ptr<JobFolder>> JobFolder::prepare(Files& files, const JobConfig& config,
                                                              const std::string& path) {
  if (files.exists(path) && !files.is_directory(path)) {
    return InvalidInput(
        absl::StrCat("--out: found ", path, ", which is a file, allowed: a folder or a new name"));
  }
  RETURN_IF_ERROR(make_writable(files, path));
  ASSIGN_OR_RETURN(std::unique_ptr<OutputLock> lock,
                   OutputLock::acquire(join_path(path, "run.lock"), kLockPatience));
  auto folder = std::unique_ptr<JobFolder>(new JobFolder(path, std::move(lock)));
  RETURN_IF_ERROR(folder->check_newest(files, config));
  ASSIGN_OR_RETURN(folder->term_, take_next_term(files, path, new_term_owner()));
  RETURN_IF_ERROR(replace_file(files, folder->config(), to_toml(config)));
  return folder;
}

}  // namespace evermoe
