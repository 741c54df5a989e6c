#include "control/folder/job_objects.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "checkpoint/format/checkpoint_names.h"
#include "checkpoint/object_store/s3_store.h"
#include "checkpoint/object_store/stored_checkpoints.h"
#include "checkpoint/read/checkpoint_reader.h"

namespace evermoe {
namespace {

absl::StatusOr<std::unique_ptr<ObjectStore>> open_store(const std::string& url,
                                                        std::function<bool()> is_cancelled) {
  ASSIGN_OR_RETURN(S3Options options, s3_options());
  options.http.is_cancelled = std::move(is_cancelled);
  return open_s3_store(url, std::move(options));
}

// Somebody has to change something before it can work.
bool is_misconfigured(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsPermissionDenied(status);
}

absl::Status fetch_newer(Files& files, ObjectStore& store, const std::string& directory, Step have,
                         const std::function<void(const std::string&)>& say) {
  ASSIGN_OR_RETURN(const std::vector<StoredObject> objects, store.list("step-"));
  RETURN_IF_ERROR(files.create_directories(directory));
  for (const StoredCheckpoint& checkpoint : stored_checkpoints(objects)) {
    if (checkpoint.step <= have) break;
    const auto fetched = fetch_checkpoint(files, store, checkpoint, directory);
    if (fetched.ok()) {
      say(absl::StrCat("step ", checkpoint.step.value, " comes from ", store.url(),
                       ", the folder has nothing newer"));
      break;
    }
    if (!absl::IsDataLoss(fetched.status()) && !absl::IsNotFound(fetched.status()))
      return fetched.status();
    say(absl::StrCat("skipped checkpoint: ", fetched.status().message()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status bring_from_store(Files& files, const CheckpointConfig& config,
                              const std::string& directory,
                              const std::function<void(const std::string&)>& say) {
  if (config.store.empty()) return absl::OkStatus();
  const auto annotated = [](const absl::Status& status) {
    return annotate(status, "checkpoint.store");
  };
  const auto store = open_store(config.store, [] { return false; });
  if (!store.ok()) return annotated(store.status());
  const GoodCheckpoint newest = open_newest_good(files, directory, /*verify_contents=*/false);
  const Step have = newest.reader ? newest.reader->position().step : Step(-1);
  const absl::Status fetched = fetch_newer(files, **store, directory, have, say);
  if (fetched.ok()) return fetched;
  if (is_misconfigured(fetched)) return annotated(InvalidInput(std::string(fetched.message())));
  if (have >= Step(0)) {
    say(absl::StrCat("checkpoint.store: ", fetched.message(), "; the job goes on from step ",
                     have.value, " of its folder"));
    return absl::OkStatus();
  }
  return annotated(Hopeless(absl::StrCat(
      fetched.message(), "; whether a checkpoint of the job is there cannot be known")));
}

JobUploads::JobUploads(Files& files, const CheckpointConfig& config, const std::string& out,
                       const FolderTerm& term, std::function<void(const std::string&)> say)
    : files_(files),
      directory_(join_path(out, "checkpoints")),
      url_(config.store),
      say_(std::move(say)) {
  if (url_.empty()) return;
  const auto open = [url = url_](std::function<bool()> is_cancelled) {
    return open_store(url, std::move(is_cancelled));
  };
  uploader_ = CheckpointUploader::create(
      files, open,
      {.directory = directory_,
       .owner = term.owner,
       .keep_newest = config.store_keep_newest,
       .may_publish = [&files, out, term] { return check_term(files, out, term); }});
}

void JobUploads::want_newest() {
  const auto latest = files_.read_symlink(join_path(directory_, kLatestName));
  const auto step = latest.ok() ? parse_step_directory(*latest) : std::nullopt;
  if (!step || *step <= wanted_) return;
  wanted_ = *step;
  uploader_->upload(wanted_);
}

void JobUploads::tell_trouble() {
  const absl::Status trouble = uploader_->take_trouble();
  if (trouble.ok()) return;
  say_(absl::StrCat("step ", wanted_.value, " is not there yet: ", trouble.message(),
                    "; training goes on"));
}

void JobUploads::look(absl::Duration now) {
  if (!uploader_ || now - looked_ < absl::Seconds(1)) return;
  looked_ = now;
  want_newest();
  tell_trouble();
}

void JobUploads::finish() {
  if (!uploader_) return;
  want_newest();
  while (!uploader_->wait_uploaded(absl::Milliseconds(200))) {
    tell_trouble();
    if (uploader_->failures_in_row() < kTriesMax) continue;
    say_(absl::StrCat("step ", wanted_.value, " is not in ", url_,
                      "; the same command puts it there when the store answers"));
    return;
  }
  tell_trouble();
}

}  // namespace evermoe
