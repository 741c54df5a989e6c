// Durable checkpoints, writing side: one saver per rank.
//
// A save has two phases (docs/formats/checkpoint.md):
//   1. every rank copies its shards to memory (begin), then a background thread writes and fsyncs
//      the rank's safetensors file and its part of the manifest under a temporary directory name;
//   2. when every rank has prepared, rank 0 publishes: manifest, fsync, atomic rename of the
//      directory, `latest`, then retention.
// How the ranks learn that all have prepared is the caller's business (the trainer lets the number
// ride on each step's verdict), so nothing here talks to other ranks.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/fingerprint.h"
#include "checkpoint/format/element_type.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/format/training_position.h"
#include "checkpoint/write/folder_term.h"
#include "env/files.h"
#include "model/operator.h"

namespace evermoe {

// One operator shard to be saved. The bytes may live on any device: `copy` brings those of one part
// to `into` (range.size() elements) and is called during begin(), on the caller's thread, or after
// begin_behind(), on one of the saver's.
struct ShardSource {
  std::string operator_name;
  int64_t flat_size = 0;
  FlatRange range;
  std::function<void(StatePart part, std::span<std::byte> into)> copy;
  // Fingerprint of the live compute weights of this range (in compute_type), so that a reader can
  // prove that the compute weights it derives from the masters are those that were trained with.
  std::function<Fingerprint()> compute_fingerprint;
};

// What a save leaves out, on purpose: experts whose state stays that of an older checkpoint. The
// default is a full one.
struct PartialSave {
  // The published checkpoint, older than this one, that has what is not saved; -1: none. The same
  // on all ranks. Rank 0's saver does not remove it before the save is published or superseded. If
  // it is gone the save fails (NotFound); if its step is saved again meanwhile, publishing does
  // (Corrupt).
  Step base{-1};
  // Of each stage one rank gives those of all experts of its layers. An expert that no rank saves
  // has a history that says so. Any order. Without one an operator's numbers are 0.
  std::vector<ExpertHistory> histories;
  // In which this rank last went back, the same on all ranks, or the save is not published
  // (Corrupt); 0: no matter, the same step always has the same bits.
  int64_t view = 0;
};

struct SaverOptions {
  std::string directory;  // OUT/checkpoints; all ranks see the same one
  int rank = 0;
  int world_size = 1;
  PartTypes state_types = same_types(ElementType::kFp32);
  ElementType compute_type = ElementType::kFp32;
  std::string topology;  // for people and `inspect`: "2 stages, lanes 2 2"
  // Retention: a published checkpoint stays if any rule wants it. The newest always stays.
  int64_t keep_newest = 2;
  int64_t keep_every_steps = 0;
  int64_t keep_best = 1;  // by validation loss
  Step pinned{-1};        // until unpin() this one stays, too: the run began from it
  // The newest term that this member was told of; null: there is none. Called on the saver's
  // threads, as `may_write` is: nothing is written or published once that says no; null: it never
  // does.
  std::function<FolderTerm()> term;
  std::function<absl::Status()> may_write;
  // Rank 0 asks this, too, before it publishes or removes anything (PublisherClaim::hold); null: it
  // may.
  std::function<absl::Status()> may_publish;
  // This process takes the place of one that played the rank before, while others may be saving:
  // temporary folders are left alone, and publishing what has been published already is ok.
  bool joins_others = false;
  // False: there is no second phase; whoever prepares here makes of it what it wants (LocalTier).
  bool has_publisher = true;
  // What begin() and the copying threads wait at most for an earlier save.
  absl::Duration busy_timeout = absl::Minutes(30);

  // Performance only.
  int64_t staging_bytes = 0;  // staging memory to allocate in open() instead of the first begin()
  int64_t block_bytes = 8 << 20;  // of one write; a multiple of 4096
  int write_threads = 2;          // writes in flight; with one, a fast disk idles between writes
};

class CheckpointSaver {
 public:
  // Creates the directory; rank 0 removes temporary leftovers of earlier runs. No rank may begin()
  // a save before rank 0 has opened its saver, unless that joins others. Replaced (folder_term.h)
  // if another process publishes in the place of this one.
  static absl::StatusOr<std::unique_ptr<CheckpointSaver>> open(Files& files, SaverOptions options);
  // Finishes what was begun and what was asked to be published.
  virtual ~CheckpointSaver() = default;

  // Phase 1. Returns when everything is copied (staging memory is allocated and pre-faulted once
  // and used again). Blocks first while an earlier save of this rank is still being written.
  // The error of an earlier background write is reported here (and by wait_prepared) once; nothing
  // is saved then. Empty ranges are skipped. InvalidInput for what cannot be saved, before anything
  // is waited for or written.
  virtual absl::Status begin(const TrainingPosition& position, std::span<const ShardSource> shards,
                             PartialSave partial = {}) = 0;

  // The same, but a thread of the saver copies the shards while the caller goes on. Before the
  // state of an operator changes the caller waits for its copy; the destructor waits for all.
  virtual absl::Status begin_behind(const TrainingPosition& position,
                                    std::vector<ShardSource> shards, PartialSave partial = {}) = 0;
  // Timeout if copying does not go on. Ok if nothing of that operator is being copied.
  virtual absl::Status wait_copied(const std::string& operator_name) = 0;
  // Whether a save has begun that is not on disk yet and has not failed. Never blocks.
  virtual bool is_saving() = 0;

  // Newest step that this rank has durable on disk and has not been told is published; Step(-1)
  // for none. Never blocks.
  virtual Step prepared() = 0;
  // Blocks until nothing is being written. Errors of background work are returned once.
  virtual absl::Status wait_prepared(absl::Duration timeout) = 0;

  // Phase 2, rank 0 only, after every rank prepared `step`; runs in the background.
  // Publishing the same step twice is ok. A step published before replaces the old directory.
  virtual void publish(Step step) = 0;
  // Blocks until every publish has finished; returns the first error, once. An error of removing
  // old checkpoints is reported too, but published() then shows the step.
  virtual absl::Status wait_published(absl::Duration timeout) = 0;
  // Newest step published by this saver; Step(-1) for none.
  virtual Step published() = 0;
  // From now on SaverOptions::pinned is a checkpoint like others: what is published next may remove
  // it.
  virtual void unpin() = 0;
};

}  // namespace evermoe
