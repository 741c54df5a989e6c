// One save of one rank: what is copied, and how it reaches the disk.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/format/training_position.h"
#include "checkpoint/write/checkpoint_saver.h"
#include "checkpoint/write/shard_file.h"
#include "checkpoint/write/staging_buffer.h"
#include "env/files.h"

namespace evermoe {

// The saver's begin() fills the staging memory while the writer thread empties it; `progress`
// orders the two. compute[i] is set before any byte of shard i is announced.
struct SaveJob {
  TrainingPosition position;
  PartialSave partial;
  std::vector<ShardShape> shards;
  ShardFileLayout layout;
  std::span<std::byte> staging;
  StagingProgress progress;
  std::vector<std::optional<Fingerprint>> compute;
  std::vector<ShardSource> behind;  // to be copied on the saver's thread; else begin() does
};

// Copies the shards to the staging memory, in the order of job.shards. What copying throws fails
// the job's progress, and is returned.
absl::Status copy_shards(std::span<const ShardSource> shards, const PartTypes& types, SaveJob& job);

// Where the staging memory is filled when the shard of this operator has been copied; 0 if the job
// has none.
int64_t end_of_shard(const SaveJob& job, const std::string& operator_name, const PartTypes& types);

// Refuses what cannot be saved (InvalidInput) before anything is waited for or written.
absl::StatusOr<std::shared_ptr<SaveJob>> make_save_job(const SaverOptions& options,
                                                       const TrainingPosition& position,
                                                       std::vector<ShardShape> shards,
                                                       PartialSave partial);

// Phase 1 on disk: the rank's file and its part of the manifest, durable under the temporary name.
// After an error the rank's file is gone, so that a full disk gets its space back.
absl::Status write_save_job(Files& files, const SaverOptions& options, SaveJob& job);

}  // namespace evermoe
