// Saves of one rank to the disk of its own machine, more often than to storage that all ranks see.
//
//   1. begin(): the rank's file and its part of the manifest, durable as step-N.tmp.
//   2. commit(), when all ranks have done so, which the caller knows of the step's verdict: a
//      rename to step-N, and older ones are removed.
// There is no manifest of all ranks, and nobody waits for storage that others see.
//
// What must hold at every instant, whatever dies: once a step is committed on any rank, every rank
// has it, as step-N or step-N.tmp, until a newer one is committed on that rank.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "checkpoint/tiers/local_saves.h"
#include "checkpoint/write/checkpoint_saver.h"

namespace evermoe {

// Removes what a run that goes on from `from` must never come to again: saves of that step and
// newer ones but `chosen`, if any, and unfinished ones; makes `chosen` a committed one.
absl::Status settle_local_saves(Files& files, const std::string& directory, Step from,
                                const std::optional<LocalSave>& chosen);

class LocalTier {
 public:
  // `options` as for a saver, of which `directory` is the rank's own folder and `keep_newest` and
  // `pinned` are the rules for what stays.
  static absl::StatusOr<std::unique_ptr<LocalTier>> open(Files& files, SaverOptions options);
  // Finishes what was begun.
  virtual ~LocalTier() = default;

  // As CheckpointSaver::begin() and prepared(); `run`: the view in which the whole job resumed. Of
  // saves that are never committed the newest two stay besides this one, and what prepared() says.
  // On the thread that calls commit().
  virtual absl::Status begin(const TrainingPosition& position, View run,
                             std::span<const ShardSource> shards) = 0;
  virtual Step prepared() = 0;
  virtual absl::Status wait_prepared(absl::Duration timeout) = 0;

  // All ranks have prepared it. In the background; what is older than the newest step that was
  // asked for is not committed any more.
  virtual void commit(Step step) = 0;
  // Blocks until nothing is left to commit; the first error since the last call.
  virtual absl::Status wait_committed(absl::Duration timeout) = 0;
  virtual Step committed() = 0;
  virtual void unpin() = 0;
  // An unfinished save gives its space back.
  virtual void discard(Step step) = 0;
};

}  // namespace evermoe
