// The object store of a job, as its host uses it: a fresh folder gets the newest checkpoint from
// there before anything starts, and what is published in the folder is put there behind training.
// The workers know nothing of it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/ids.h"
#include "checkpoint/object_store/uploader.h"
#include "checkpoint/write/folder_term.h"
#include "config/job_config.h"
#include "env/files.h"

namespace evermoe {

// Brings the newest checkpoint of the store to `directory` (OUT/checkpoints) if that has none of
// its step or a newer one. What it says is for people. InvalidInput if the store cannot be used as
// it was named; Hopeless if it does not answer and there is no checkpoint to go on from: the job
// would begin anew though it may be half done.
absl::Status bring_from_store(Files& files, const CheckpointConfig& config,
                              const std::string& directory,
                              const std::function<void(const std::string&)>& say);

// One thread calls it. Without a store nothing does anything.
class JobUploads {
 public:
  JobUploads(Files& files, const CheckpointConfig& config, const std::string& out,
             const FolderTerm& term, std::function<void(const std::string&)> say);

  // Wants what has been published since, and says what went wrong. Reads one link, at most once a
  // second.
  void look(absl::Duration now);
  // Waits until the newest is there. Gives up, and says so, after kTriesMax failures in a row.
  void finish();

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
