// Phase 2 of a save: from files that every rank has made durable to a checkpoint with a name.
//
// What must hold at every instant, whatever dies (docs/formats/checkpoint.md, "Crashes"):
//   * a folder step-N (or step-N.old while there is no step-N) holds a complete checkpoint;
//   * its name appears by one rename, after everything in it is durable;
//   * nothing published is removed before what replaces it is durable.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/write/retention.h"
#include "env/files.h"

namespace evermoe {

// Rank 0's. One thread at a time.
class CheckpointPublisher {
 public:
  // `may_publish`, if any, is asked before anything is changed, made visible or removed: with an
  // error nothing is. `bases`, if any, is asked before anything is removed: by step the checkpoint
  // that each partial save which is on its way builds on; it stays.
  CheckpointPublisher(Files& files, std::string directory, int world_size, RetentionRules rules,
                      std::function<absl::Status()> may_publish = nullptr,
                      std::function<std::map<Step, Step>()> bases = nullptr)
      : files_(files),
        directory_(std::move(directory)),
        world_size_(world_size),
        rules_(rules),
        may_publish_(std::move(may_publish)),
        bases_(std::move(bases)) {}

  // Removes what interrupted runs left, and finishes a replacement that was cut in two. Does not
  // ask whether it may.
  absl::Status recover();

  // Merges the ranks' parts, and for what they have not saved the base that they name, makes the
  // checkpoint visible and durable, points `latest` to it, then cleans up and applies retention. If
  // only the cleaning fails, the error is returned although the checkpoint is published. May be
  // called again after an error.
  absl::Status publish(Step step);

  // A new save of `step` begins: an unfinished publish of the former one is not to be finished.
  void forget(Step step);

  // No checkpoint is pinned any more.
  void unpin() { rules_.pinned = Step(-1); }

  // Newest step that is visible and durable; Step(-1) for none.
  Step published() const { return published_; }

 private:
  absl::Status may_publish() const { return may_publish_ ? may_publish_() : absl::OkStatus(); }
  std::string path(Step step, const char* suffix = "") const;
  bool has_parts(const std::string& folder) const;
  absl::StatusOr<std::vector<Manifest>> read_parts(const std::string& folder);
  absl::StatusOr<std::optional<Manifest>> read_base(const Manifest& part);
  absl::StatusOr<Manifest> merge_parts(const std::string& folder);
  absl::Status write_manifest(Step step);
  absl::Status make_visible(Step step);
  absl::Status replace(Step step);
  absl::Status clean_up(Step step);
  absl::Status remove_strangers(Step step);
  absl::Status apply_retention(Step step);
  absl::StatusOr<std::vector<RetainedCheckpoint>> all_retained(Step step);
  absl::StatusOr<RetainedCheckpoint> retained(Step step);
  absl::StatusOr<bool> has_its_files(Step step, const Manifest& manifest);

  Files& files_;
  const std::string directory_;
  const int world_size_;
  RetentionRules rules_;
  const std::function<absl::Status()> may_publish_;
  const std::function<std::map<Step, Step>()> bases_;
  Step published_{-1};
  std::optional<Step> visible_;               // renamed, but not yet known to be durable
  std::map<Step, RetainedCheckpoint> known_;  // so that a manifest is read once
};

}  // namespace evermoe
