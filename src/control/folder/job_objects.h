// The object store of a job, as its host uses it: a fresh folder gets the newest checkpoint from
// there before anything starts, and what is published in the folder is put there behind training.
// The workers know nothing of it.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/ids.h"
#include "checkpoint/object_store/uploader.h"
#include "checkpoint/write/folder_term.h"
#include "config/job_config.h"
#include "env/files.h"

namespace evermoe {

// How long a job waits for its store before and after training, unless it is asked to stop
// (`is_stopped`; null: it never is).
inline constexpr absl::Duration kStoreWaitMax = absl::Hours(2);
struct StoreWait {
  absl::Duration at_most = kStoreWaitMax;
  std::function<bool()> is_stopped = nullptr;
};

// Brings the newest good checkpoint of the store to `directory` (OUT/checkpoints) if that has none
// of its step or a newer one; returns the steps that are damaged there. What it says is for people.
// A store that cannot be used, or does not answer, is told where there is a checkpoint to go on
// from; else InvalidInput if it cannot be used as it was named, and Hopeless if it does not answer:
// the job would begin anew though it may be half done. Cancelled.
absl::StatusOr<std::set<Step>> bring_from_store(Files& files, const CheckpointConfig& config,
                                                const std::string& directory, const StoreWait& wait,
                                                const std::function<void(const std::string&)>& say);

// One thread calls it. Without a store nothing does anything.
class JobUploads {
 public:
  // `damaged`: what bring_from_store() returned.
  JobUploads(Files& files, const CheckpointConfig& config, const std::string& out,
             const FolderTerm& term, const std::set<Step>& damaged,
             std::function<void(const std::string&)> say);

  // Wants what has been published since, and says what went wrong. Reads one link, at most once a
  // second.
  void look(absl::Duration now);
  // Waits until the newest is there. Gives up, and says so, after kTriesMax failures in a row, and
  // when the wait is over.
  void finish(const StoreWait& wait = {});

 private:
  static constexpr int kTriesMax = 5;
  void want_newest();
  void tell_trouble();

  Files& files_;
  const std::string directory_;
  const std::string url_;
  const std::function<void(const std::string&)> say_;
  std::unique_ptr<CheckpointUploader> uploader_;
  absl::Duration looked_ = -absl::InfiniteDuration();
  Step wanted_{-1};
};

}  // namespace evermoe
