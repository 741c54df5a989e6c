// Puts published checkpoints into an object store, behind training: the newest one, again and again
// until it is there or a newer one is wanted. Never holds anything up; keeps one part of a file in
// memory.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/ids.h"
#include "checkpoint/object_store/object_store.h"
#include "env/files.h"

namespace evermoe {

struct UploaderOptions {
  std::string directory;    // of the checkpoints
  std::string owner;        // of the store's term that it takes: one line that no one else has
  int64_t keep_newest = 2;  // in the store
  // What the store has of these steps is damaged: it is sent again, and does not count among what
  // is kept.
  std::set<Step> damaged = {};
  // Asked before anything becomes visible or is removed there; null: it may.
  std::function<absl::Status()> may_publish;
  // After a failure, doubled with each further one in a row.
  absl::Duration pause_min = absl::Seconds(1);
  absl::Duration pause_max = absl::Seconds(60);
};

class CheckpointUploader {
 public:
  // Opens the store, on the uploader's thread. `is_cancelled` ends what is under way with it.
  using OpenStore = std::function<absl::StatusOr<std::unique_ptr<ObjectStore>>(
      std::function<bool()> is_cancelled)>;
  static std::unique_ptr<CheckpointUploader> create(Files& files, OpenStore open_store,
                                                    UploaderOptions options);
  // Breaks off what is under way.
  virtual ~CheckpointUploader() = default;

  // Of a published checkpoint. An older one that is not there yet is given up for it.
  virtual void upload(Step step) = 0;
  // The newest that is there; Step(-1) for none.
  virtual Step uploaded() = 0;
  // Waits until nothing is left to be tried: what was wanted is there, or will never be, as
  // uploaded() tells; false if it is not so after so long.
  virtual bool wait_uploaded(absl::Duration timeout) = 0;
  // Failures since the last success; it tries on.
  virtual int failures_in_row() = 0;
  // The last failure that has not been told yet, be it only that older checkpoints could not be
  // removed; ok if there is none.
  virtual absl::Status take_trouble() = 0;
};

}  // namespace evermoe
