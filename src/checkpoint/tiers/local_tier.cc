#include "checkpoint/tiers/local_tier.h"

#include <algorithm>
#include <functional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "checkpoint/format/checkpoint_names.h"
#include "checkpoint/write/monitor.h"

namespace evermoe {
namespace {

// Saves that no rank has been told of, with the one that begins: a rank that lags behind is one
// save behind.
constexpr int64_t kUncommittedMax = 3;

std::string folder_of(const std::string& directory, Step step, const char* suffix = "") {
  return absl::StrCat(join_path(directory, step_directory_name(step)), suffix);
}

// A save, or what is left of one.
struct SaveFolder {
  std::string path;
  Step step;
  bool is_committed = false;
  bool is_removed = false;  // half, perhaps
};

std::optional<SaveFolder> parse_folder(const std::string& directory, const std::string& name) {
  const std::string path = join_path(directory, name);
  if (const auto step = parse_step_directory(name)) return SaveFolder{path, *step, true};
  if (const auto step = parse_step_directory(name, kTemporarySuffix))
    return SaveFolder{path, *step};
  if (const auto step = parse_step_directory(name, kRemovedSuffix))
    return SaveFolder{path, *step, false, true};
  return std::nullopt;
}

// Newest first, by number: names of more than eight digits do not sort as their steps do.
absl::StatusOr<std::vector<SaveFolder>> folders_in(Files& files, const std::string& directory) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.list(directory));
  std::vector<SaveFolder> folders;
  for (const std::string& name : names) {
    if (auto folder = parse_folder(directory, name)) folders.push_back(*std::move(folder));
  }
  std::ranges::sort(folders, std::greater<>(), &SaveFolder::step);
  return folders;
}

// Under another name first, so that a save that is half removed is never taken for one.
absl::Status remove_save(Files& files, const std::string& directory, const SaveFolder& save) {
  const std::string doomed = folder_of(directory, save.step, kRemovedSuffix);
  RETURN_IF_ERROR(remove_tree(files, doomed));
  RETURN_IF_ERROR(files.rename(save.path, doomed));
  return remove_tree(files, doomed);
}

// Where both are there, what all ranks have is step-N.tmp: step-N is of a future that was given up.
// A process that has taken a lost one's place on another machine has neither.
absl::StatusOr<bool> make_committed(Files& files, const std::string& directory, Step step) {
  const std::string temporary = folder_of(directory, step, kTemporarySuffix);
  const std::string path = folder_of(directory, step);
  if (files.exists(temporary)) {
    if (files.exists(path)) RETURN_IF_ERROR(remove_save(files, directory, {path, step}));
    RETURN_IF_ERROR(files.rename(temporary, path));
  }
  RETURN_IF_ERROR(files.sync_directory(directory));
  return files.exists(path);
}

class DiskTier : public LocalTier {
 public:
  DiskTier(Files& files, SaverOptions options)
      : files_(files), options_(std::move(options)), pinned_(options_.pinned) {}

  ~DiskTier() override {
    saver_.reset();
    {
      Monitor::Lock lock(monitor_);
      stopping_ = true;
    }
    if (committer_.joinable()) committer_.join();
  }

  absl::Status start() {
    options_.has_publisher = false;
    ASSIGN_OR_RETURN(saver_, CheckpointSaver::open(files_, options_));
    committer_ = std::thread([this] { commit_steps(); });
    return absl::OkStatus();
  }

  absl::Status begin(const TrainingPosition& position, View run,
                     std::span<const ShardSource> shards) override {
    RETURN_IF_ERROR(remove_uncommitted());
    return saver_->begin(position, shards, {.view = run.value});
  }
  Step prepared() override { return saver_->prepared(); }
  absl::Status wait_prepared(absl::Duration timeout) override {
    return saver_->wait_prepared(timeout);
  }

  void commit(Step step) override {
    Monitor::Lock lock(monitor_);
    wanted_ = std::max(wanted_, step);
  }

  absl::Status wait_committed(absl::Duration timeout) override {
    Monitor::Lock lock(monitor_);
    const auto idle = [this] { return wanted_ <= tried_; };
    if (!lock.wait(timeout, idle))
      return Timeout(absl::StrCat(options_.directory, ": committing takes longer than ",
                                  absl::FormatDuration(timeout)));
    return std::exchange(error_, absl::OkStatus());
  }

  Step committed() override {
    Monitor::Lock lock(monitor_);
    return committed_;
  }

  void unpin() override {
    Monitor::Lock lock(monitor_);
    pinned_ = Step(-1);
  }

  void discard(Step step) override {
    (void)remove_tree(files_, folder_of(options_.directory, step, kTemporarySuffix));
  }

 private:
  void commit_steps() {
    for (;;) {
      Step step;
      {
        Monitor::Lock lock(monitor_);
        const auto due = [this] { return wanted_ > tried_ || stopping_; };
        lock.wait(due);  // the owner's destructor ends it
        if (wanted_ <= tried_) return;
        step = wanted_;
      }
      bool is_committed = false;
      const absl::Status status = guard([&]() -> absl::Status {
        ASSIGN_OR_RETURN(is_committed, make_committed(files_, options_.directory, step));
        return is_committed ? remove_older(step) : absl::OkStatus();
      });
      Monitor::Lock lock(monitor_);
      if (error_.ok())
        error_ = annotate(status, absl::StrCat("committing step ", step.value, " on this machine"));
      if (is_committed) committed_ = step;
      tried_ = step;
    }
  }

  absl::Status remove_older(Step newest) {
    Step pinned;
    {
      Monitor::Lock lock(monitor_);
      pinned = pinned_;
    }
    ASSIGN_OR_RETURN(const std::vector<SaveFolder> folders, folders_in(files_, options_.directory));
    int64_t committed = 0;
    for (const SaveFolder& folder : folders) {
      if (folder.is_removed) {
        RETURN_IF_ERROR(remove_tree(files_, folder.path));
        continue;
      }
      if (folder.step > newest) continue;
      if (folder.is_committed) ++committed;
      const bool stays =
          folder.is_committed && (committed <= options_.keep_newest || folder.step == pinned);
      // A rank saves in the order of steps: what is unfinished never becomes complete.
      if (!stays) RETURN_IF_ERROR(remove_save(files_, options_.directory, folder));
    }
    return absl::OkStatus();
  }

  // Where one rank's disk fails nothing is committed, and so nothing removed, on the others'. No
  // commit() comes meanwhile: that and begin() are called on one thread.
  absl::Status remove_uncommitted() {
    {
      Monitor::Lock lock(monitor_);
      if (wanted_ > tried_) return absl::OkStatus();  // the committer removes them
    }
    ASSIGN_OR_RETURN(const std::vector<SaveFolder> folders, folders_in(files_, options_.directory));
    const Step prepared = saver_->prepared();
    int64_t newest = 0;
    for (const SaveFolder& folder : folders) {
      if (folder.is_committed || folder.is_removed) continue;
      // Others may be told that this rank has what it says to have prepared.
      if (++newest < kUncommittedMax || folder.step == prepared) continue;
      RETURN_IF_ERROR(remove_save(files_, options_.directory, folder));
    }
    return absl::OkStatus();
  }

  Files& files_;
  SaverOptions options_;  // constant after start()
  std::unique_ptr<CheckpointSaver> saver_;
  std::thread committer_;

  Monitor monitor_;  // guards what follows
  bool stopping_ = false;
  Step wanted_{-1};
  Step tried_{-1};
  Step committed_{-1};
  Step pinned_;
  absl::Status error_;
};

}  // namespace

absl::Status settle_local_saves(Files& files, const std::string& directory, Step from,
                                const std::optional<LocalSave>& chosen) {
  if (!files.is_directory(directory)) return absl::OkStatus();
  const std::string kept = chosen ? path_of(directory, *chosen) : "";
  ASSIGN_OR_RETURN(const std::vector<SaveFolder> folders, folders_in(files, directory));
  for (const SaveFolder& folder : folders) {
    if (folder.path == kept) continue;
    if (folder.is_removed) {
      RETURN_IF_ERROR(remove_tree(files, folder.path));
    } else if (!folder.is_committed || folder.step >= from) {
      RETURN_IF_ERROR(remove_save(files, directory, folder));
    }
  }
  if (chosen && !chosen->is_committed)
    RETURN_IF_ERROR(files.rename(kept, folder_of(directory, chosen->step)));
  return files.sync_directory(directory);
}

absl::StatusOr<std::unique_ptr<LocalTier>> LocalTier::open(Files& files, SaverOptions options) {
  auto tier = std::make_unique<DiskTier>(files, std::move(options));
  RETURN_IF_ERROR(tier->start());
  return tier;
}

}  // namespace evermoe
