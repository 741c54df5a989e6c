#include "control/folder/job_folder.h"

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "checkpoint/read/checkpoint_reader.h"
#include "config/identity.h"
#include "control/folder/job_end.h"

namespace evermoe {
namespace {

// How long workers of a supervisor that was killed may take to die.
constexpr absl::Duration kLockPatience = absl::Seconds(10);

// The members of a living job have read this very file.
bool is_stored(Files& files, const std::string& path, const std::string& text) {
  const auto stored = read_file(files, path, kConfigBytesMax);
  return stored.ok() && *stored == text;
}

// What is deleted with the job's folder is no tier of its own.
absl::Status check_local_directory(const std::string& local, const std::string& out) {
  if (local.empty()) return absl::OkStatus();
  const auto normal = [](const std::string& path) {
    return std::filesystem::absolute(path).lexically_normal() / "";
  };
  const std::string inside = normal(local).string();
  if (!absl::StartsWith(inside, normal(out).string())) return absl::OkStatus();
  return InvalidInput(absl::StrCat("checkpoint.local_directory: found ", local,
                                   ", allowed: a folder outside of --out ", out,
                                   ", on a disk of each machine's own"));
}

}  // namespace

// With a file, because permissions alone do not tell whether a file system is read-only.
absl::Status check_output_folder(Files& files, const std::string& path) {
  if (files.exists(path) && !files.is_directory(path)) {
    return InvalidInput(
        absl::StrCat("--out: found ", path, ", which is a file, allowed: a folder or a new name"));
  }
  const std::string probe = join_path(path, "run.probe");
  absl::Status status = files.create_directories(path);
  if (status.ok()) status = write_file_synced(files, probe, "");
  if (status.ok()) {
    const absl::Status removed = files.remove_file(probe);
    // Nodes on several machines look at once.
    return absl::IsNotFound(removed) ? absl::OkStatus() : removed;
  }
  if (!absl::IsPermissionDenied(status)) return status;
  const std::string message(status.message());
  return InvalidInput(absl::StrCat("--out: found ", path, ", which cannot be written",
                                   message.substr(message.rfind(": ")),
                                   ", allowed: a folder where you may create files"));
}

absl::Status JobFolder::check_newest(Files& files, const JobConfig& config) {
  GoodCheckpoint newest =
      open_newest_good(files, join_path(path_, "checkpoints"), /*verify_contents=*/false);
  skipped_ = std::move(newest.skipped);
  if (newest.reader == nullptr) return absl::OkStatus();
  step_ = newest.reader->position().step;
  saved_term_ = newest.reader->manifest().term;
  const std::string& there = newest.reader->position().model_identity;
  const std::string difference = identity_difference(there, model_identity(config));
  if (difference.empty()) return absl::OkStatus();
  return InvalidInput(absl::StrCat(newest.reader->path(), " is of another model: ", difference,
                                   "; use the same values, or another --out"));
}

absl::StatusOr<std::unique_ptr<JobFolder>> JobFolder::prepare(Files& files, const JobConfig& config,
                                                              const std::string& path,
                                                              const JobFolderOptions& options) {
  RETURN_IF_ERROR(check_output_folder(files, path));
  RETURN_IF_ERROR(check_local_directory(config.checkpoint.local_directory, path));
  const absl::StatusOr<NewestTerm> met = newest_term(files, path);
  ASSIGN_OR_RETURN(std::unique_ptr<OutputLock> lock,
                   OutputLock::acquire(join_path(path, "run.lock"), kLockPatience,
                                       options.is_on_many_machines ? OutputLock::Kind::kAmongHosts
                                                                   : OutputLock::Kind::kAlone));
  RETURN_IF_ERROR(check_no_contradiction(files, path));
  auto folder = std::unique_ptr<JobFolder>(new JobFolder(path, std::move(lock)));
  ASSIGN_OR_RETURN(
      folder->damaged_in_store_,
      bring_from_store(files, config.checkpoint, join_path(path, "checkpoints"), options.store_wait,
                       [&](const std::string& line) { folder->brought_.push_back(line); }));
  RETURN_IF_ERROR(folder->check_newest(files, config));
  const std::string text = to_toml(config);
  const std::string substance = absl::StrCat(options.build, "\n", text);
  const auto continues = [&](const std::string& job) {
    return options.is_on_many_machines && is_job_of(job, substance) &&
           is_stored(files, folder->config(), text);
  };
  ASSIGN_OR_RETURN(folder->term_,
                   take_next_term(files, path, new_term_owner(), new_job_name(substance), continues,
                                  folder->saved_term_));
  if (met.ok() && !met->end && continues(met->term.job))
    folder->end_meanwhile_ = end_of(files, path, met->term);
  if (folder->term_.hosts_before == 0) RETURN_IF_ERROR(replace_file(files, folder->config(), text));
  return folder;
}

}  // namespace evermoe
