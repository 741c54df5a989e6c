#include "checkpoint/object_store/uploader.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/log.h"
#include "checkpoint/format/checkpoint_names.h"
#include "checkpoint/object_store/stored_checkpoints.h"
#include "checkpoint/write/monitor.h"

namespace evermoe {
namespace {

class Uploader : public CheckpointUploader {
 public:
  Uploader(Files& files, OpenStore open_store, UploaderOptions options)
      : files_(files),
        open_store_(std::move(open_store)),
        options_(std::move(options)),
        damaged_(options_.damaged) {
    thread_ = std::thread([this] { run(); });
  }

  ~Uploader() override {
    {
      Monitor::Lock lock(monitor_);
      stopping_ = true;
    }
    thread_.join();
  }

  void upload(Step step) override {
    Monitor::Lock lock(monitor_);
    wanted_ = std::max(wanted_, step);
  }
  Step uploaded() override {
    Monitor::Lock lock(monitor_);
    return uploaded_;
  }
  bool wait_uploaded(absl::Duration timeout) override {
    Monitor::Lock lock(monitor_);
    const auto idle = [this] { return wanted_ <= ended_; };
    return lock.wait(timeout, idle);
  }
  int failures_in_row() override {
    Monitor::Lock lock(monitor_);
    return failures_;
  }
  absl::Status take_trouble() override {
    Monitor::Lock lock(monitor_);
    return std::exchange(trouble_, absl::OkStatus());
  }

 private:
  void run() {
    while (true) {
      Step step;
      {
        Monitor::Lock lock(monitor_);
        const auto due = [this] { return wanted_ > ended_ || stopping_; };
        lock.wait(due);  // the owner's destructor ends it
        if (stopping_) return;
        step = wanted_;
      }
      const absl::Status status = guard([&] { return try_upload(step); });
      if (!note(step, status)) pause();
    }
  }

  // Whether the step has come to its end.
  bool note(Step step, const absl::Status& status) {
    Monitor::Lock lock(monitor_);
    if (status.ok()) {
      uploaded_ = ended_ = step;
      failures_ = 0;
      note_removal();
      return true;
    }
    if (stopping_) return true;
    log_warning(absl::StrCat("object store: step ", step.value, ": ", status.message()));
    trouble_ = annotate(status, "object store");
    ++failures_;
    // It is not here any more, or somebody else has taken over: nothing to be tried again.
    if (!absl::IsNotFound(status) && !absl::IsAborted(status)) return false;
    ended_ = step;
    return true;
  }

  // What stays there only costs space.
  void note_removal() {
    if (removed_.ok() || stopping_) return;
    trouble_ = annotate(removed_, "object store: older checkpoints stay there");
    log_warning(std::string(trouble_.message()));
  }

  void pause() {
    Monitor::Lock lock(monitor_);
    const absl::Duration wanted = options_.pause_min * (1 << std::min(failures_ - 1, 16));
    const Step step = wanted_;
    const auto is_changed = [&] { return stopping_ || wanted_ != step; };
    (void)lock.wait(std::min(wanted, options_.pause_max), is_changed);
  }

  absl::Status try_upload(Step step) {
    if (!store_) {
      ASSIGN_OR_RETURN(store_, open_store_([this] { return stopping_.load(); }));
    }
    if (options_.may_publish) RETURN_IF_ERROR(options_.may_publish());
    if (term_.empty()) {
      ASSIGN_OR_RETURN(term_, take_store_term(*store_, options_.owner));
    }
    const auto may_publish = [this]() -> absl::Status {
      if (options_.may_publish) RETURN_IF_ERROR(options_.may_publish());
      return check_store_term(*store_, term_);
    };
    const std::string folder = join_path(options_.directory, step_directory_name(step));
    const Sending sending =
        damaged_.contains(step) ? Sending::kEverything : Sending::kWhatIsMissing;
    RETURN_IF_ERROR(store_checkpoint(files_, *store_, folder, term_, sending, may_publish));
    log_info(absl::StrCat("step ", step.value, " is in ", store_->url()));
    damaged_.erase(step);
    removed_ = remove_old_checkpoints(*store_, options_.keep_newest, damaged_, may_publish);
    return absl::OkStatus();
  }

  Files& files_;
  const OpenStore open_store_;
  const UploaderOptions options_;
  // The thread's own.
  std::unique_ptr<ObjectStore> store_;
  std::string term_;        // of the store
  std::set<Step> damaged_;  // there
  absl::Status removed_;    // of the last upload's removals

  Monitor monitor_;  // guards what follows
  std::atomic<bool> stopping_{false};
  Step wanted_{-1};
  Step ended_{-1};
  Step uploaded_{-1};
  int failures_ = 0;
  absl::Status trouble_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<CheckpointUploader> CheckpointUploader::create(Files& files, OpenStore open_store,
                                                               UploaderOptions options) {
  return std::make_unique<Uploader>(files, std::move(open_store), std::move(options));
}

}  // namespace evermoe
