#include "control/folder/job_objects.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "checkpoint/format/checkpoint_names.h"
#include "checkpoint/object_store/s3_store.h"
#include "checkpoint/object_store/stored_checkpoints.h"
#include "checkpoint/read/checkpoint_reader.h"
#include "env/clock.h"

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
  return absl::IsInvalidArgument(status) || absl::IsPermissionDenied(status) ||
         absl::IsUnimplemented(status);
}

// Asked about once a second.
class WaitEnd {
 public:
  explicit WaitEnd(const StoreWait& wait)
      : wait_(wait), deadline_(real_clock().now() + wait.at_most) {}
  bool is_stopped() const { return wait_.is_stopped && wait_.is_stopped(); }
  bool is_late() const { return real_clock().now() >= deadline_; }
  bool is_over() const { return is_stopped() || is_late(); }

 private:
  const StoreWait wait_;
  const absl::Duration deadline_;
};

// Adds the steps that are damaged there to `damaged`.
absl::Status fetch_newer(Files& files, ObjectStore& store, const std::string& directory, Step have,
                         std::set<Step>& damaged,
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
    damaged.insert(checkpoint.step);
    say(absl::StrCat("skipped checkpoint: ", fetched.status().message()));
  }
  return absl::OkStatus();
}

absl::Status open_and_fetch(Files& files, const CheckpointConfig& config,
                            const std::string& directory, Step have, const StoreWait& wait,
                            std::set<Step>& damaged,
                            const std::function<void(const std::string&)>& say) {
  const WaitEnd end(wait);
  ASSIGN_OR_RETURN(const auto store, open_store(config.store, [&] { return end.is_over(); }));
  absl::Status fetched = fetch_newer(files, *store, directory, have, damaged, say);
  if (end.is_stopped()) return Cancelled(config.store + ": given up");
  if (!absl::IsCancelled(fetched)) return fetched;
  return Timeout(absl::StrCat(config.store, ": the checkpoint has not come within ",
                              absl::FormatDuration(wait.at_most)));
}

}  // namespace

absl::StatusOr<std::set<Step>> bring_from_store(
    Files& files, const CheckpointConfig& config, const std::string& directory,
    const StoreWait& wait, const std::function<void(const std::string&)>& say) {
  std::set<Step> damaged;
  if (config.store.empty()) return damaged;
  const GoodCheckpoint newest = open_newest_good(files, directory, /*verify_contents=*/false);
  const Step have = newest.reader ? newest.reader->position().step : Step(-1);
  const absl::Status fetched = annotate(
      open_and_fetch(files, config, directory, have, wait, damaged, say), "checkpoint.store");
  if (absl::IsCancelled(fetched)) return fetched;
  if (!fetched.ok() && have >= Step(0)) {
    say(absl::StrCat(fetched.message(), "; the job goes on from step ", have.value,
                     " of its folder"));
  } else if (is_misconfigured(fetched)) {
    return InvalidInput(std::string(fetched.message()));
  } else if (!fetched.ok()) {
    return Hopeless(absl::StrCat(fetched.message(),
                                 "; whether a checkpoint of the job is there cannot be known"));
  }
  return damaged;
}

JobUploads::JobUploads(Files& files, const CheckpointConfig& config, const std::string& out,
                       const FolderTerm& term, const std::set<Step>& damaged,
                       std::function<void(const std::string&)> say)
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
       .damaged = damaged,
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
  if (uploader_->uploaded() >= wanted_) return say_(std::string(trouble.message()));
  say_(absl::StrCat("step ", wanted_.value, " is not there yet: ", trouble.message(),
                    "; training goes on"));
}

void JobUploads::look(absl::Duration now) {
  if (!uploader_ || now - looked_ < absl::Seconds(1)) return;
  looked_ = now;
  want_newest();
  tell_trouble();
}

void JobUploads::finish(const StoreWait& wait) {
  if (!uploader_) return;
  want_newest();
  const WaitEnd end(wait);
  while (!uploader_->wait_uploaded(absl::Milliseconds(200))) {
    tell_trouble();
    if (uploader_->failures_in_row() < kTriesMax && !end.is_over()) continue;
    say_(absl::StrCat("step ", wanted_.value, " is not in ", url_,
                      "; the same command puts it there when the store answers"));
    return;
  }
  tell_trouble();
}

}  // namespace evermoe
