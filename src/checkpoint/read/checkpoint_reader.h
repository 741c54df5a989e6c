// Durable checkpoints, reading side: any range of any operator, whatever topology wrote it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fingerprint.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/format/training_position.h"
#include "checkpoint/write/checkpoint_saver.h"
#include "env/files.h"

namespace evermoe {

// The published checkpoints in a directory (OUT/checkpoints), newest first by step, as paths.
// Temporary ones are not listed; damaged ones are. NotFound if there is no such directory.
absl::StatusOr<std::vector<std::string>> list_checkpoints(Files& files,
                                                          const std::string& directory);

// Immutable after open; one thread at a time.
class CheckpointReader {
 public:
  // `path` is a checkpoint directory, or OUT, OUT/checkpoints or `latest` (the newest is taken; a
  // damaged one is an error here, see open_newest_good()).
  // Reads and checks the manifest and the presence and size of every file, those in the folders of
  // older checkpoints too, which may not have been saved again since; Corrupt and NotFound name the
  // file. Shard contents are checked when they are read.
  static absl::StatusOr<std::unique_ptr<CheckpointReader>> open(Files& files,
                                                                const std::string& path);
  // What one rank alone has saved, of which no checkpoint has been made: its file and its part of
  // the manifest, in `folder`. Errors as above. read() is for ranges that the rank has
  // (holds_range()).
  static absl::StatusOr<std::unique_ptr<CheckpointReader>> open_part(Files& files,
                                                                     const std::string& folder,
                                                                     int rank);
  virtual ~CheckpointReader() = default;

  virtual const std::string& path() const = 0;
  virtual const Manifest& manifest() const = 0;
  virtual const TrainingPosition& position() const = 0;

  // Reads elements [range.begin, range.end) of one part in its type of the checkpoint. Every shard
  // touched is read whole and its fingerprint checked: Corrupt names file, operator and part.
  virtual absl::Status read(const std::string& operator_name, StatePart part, FlatRange range,
                            std::span<std::byte> into) = 0;

  // Every fingerprint of every file, and that the operators are complete, without gaps or overlaps,
  // and that compute weights cast from the masters are the recorded ones. Of an older checkpoint's
  // files only the header and what this one takes from them. Returns all problems, one line each;
  // empty means good.
  virtual std::vector<std::string> verify() = 0;

  // One hash of the whole training state: per operator (by name) master weights, moments and
  // compute weights in the flat layout, then step, samples, updates applied and loss scale. Does
  // not depend on topology, file layout or retention.
  virtual absl::StatusOr<Fingerprint> digest() = 0;
};

// The newest checkpoint that is good, for resuming.
struct GoodCheckpoint {
  std::unique_ptr<CheckpointReader> reader;  // nullptr if there is none
  // What was passed over and why, one line each, newest first.
  std::vector<std::string> skipped;
};
// `path` as for CheckpointReader::open(). With `verify_contents` every byte is read and checked,
// otherwise only manifests, presence and sizes. A path that does not exist has no checkpoints.
GoodCheckpoint open_newest_good(Files& files, const std::string& path, bool verify_contents);

// The first difference between two checkpoints, for people; nullopt if the digests are equal.
struct CheckpointDifference {
  std::string where;  // "layer.3.expert.5 exp_avg element 1234" or "step"
  std::string first;
  std::string second;
};
absl::StatusOr<std::optional<CheckpointDifference>> first_difference(CheckpointReader& a,
                                                                     CheckpointReader& b);

}  // namespace evermoe
