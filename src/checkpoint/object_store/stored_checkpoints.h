// Checkpoints as objects (docs/formats/checkpoint.md, "Object stores"):
//
//   step-00000060/rank-0000.<fingerprint>.safetensors   a file, by its content: never replaced
//   step-00000060/manifest-0000000007.<owner>.json      put last, under a term of the store
//   terms/0000000007.<owner>                            who took that term
//
// A checkpoint is there when a manifest of it is; of one step the one of the highest term counts.
// Whoever begins to publish takes a term above all others, and looks before it puts a manifest or
// removes anything whether a higher one has been taken. What it cannot exclude is a manifest that
// it puts after that: its name sorts before those of higher terms, so it never takes the place of
// theirs. The owner's fingerprint is a part of the term, so no two have one, and no server needs
// conditional writes, which not all have.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/object_store/object_store.h"
#include "env/files.h"

namespace evermoe {

// Of the file with this index. REQUIRES: it is the checkpoint's own.
std::string stored_file_name(const Manifest& manifest, size_t file);

struct StoredCheckpoint {
  Step step{-1};
  std::string term;
  std::string manifest;  // the object's name
  friend bool operator==(const StoredCheckpoint&, const StoredCheckpoint&) = default;
};
// Newest first, without those that a host has put beyond the step at which its successor began
// again: what has a lower term than an older step. Pure.
std::vector<StoredCheckpoint> stored_checkpoints(const std::vector<StoredObject>& objects);

// A term above all others; `owner` is one line that no one else has.
absl::StatusOr<std::string> take_store_term(ObjectStore& store, const std::string& owner);
// Aborted if a higher one has been taken.
absl::Status check_store_term(ObjectStore& store, const std::string& own);

// Whether a file that is there already, by name and size, is sent again.
enum class Sending : uint8_t { kWhatIsMissing, kEverything };

// Puts the checkpoint in `folder` there, its manifest last. `may_publish` is asked before the
// manifest is put. NotFound if the folder, or a file of it, is gone; Unsupported for a partial
// checkpoint.
absl::Status store_checkpoint(Files& files, ObjectStore& store, const std::string& folder,
                              const std::string& term, Sending sending,
                              const std::function<absl::Status()>& may_publish);

// Removes all but the newest `keep` checkpoints that are not `damaged`, manifests first, and files
// that belong to none and are older than the newest. `may_publish` is asked before each removal.
absl::Status remove_old_checkpoints(ObjectStore& store, int64_t keep, const std::set<Step>& damaged,
                                    const std::function<absl::Status()>& may_publish);

// Brings it to directory/step-N, which appears when everything in it is durable and its
// fingerprints have been checked, and returns that; a folder that is there is replaced. Corrupt if
// what is in the store does not fit together.
absl::StatusOr<std::string> fetch_checkpoint(Files& files, ObjectStore& store,
                                             const StoredCheckpoint& checkpoint,
                                             const std::string& directory);

}  // namespace evermoe
