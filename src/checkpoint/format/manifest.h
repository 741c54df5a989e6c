// The manifest of a checkpoint: what is in it, where each byte lies and what its fingerprint is.
// docs/formats/checkpoint.md describes the text.
//
// The same structure serves twice: each rank writes a *part* (its own file alone), and publishing
// merges the parts of all ranks into the checkpoint's manifest.
//
// A partial checkpoint saves some experts only. The manifest names the state of the others in the
// files of older checkpoints, so that it describes the whole state of every operator all the same.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fingerprint.h"
#include "checkpoint/format/element_type.h"
#include "checkpoint/format/training_position.h"
#include "model/operator.h"

namespace evermoe {

inline constexpr int64_t kManifestVersion = 1;
// Of a manifest that has older files, a base, histories or numbers of tokens: a program that knows
// nothing of them must not take it for a whole checkpoint.
inline constexpr int64_t kPartialManifestVersion = 2;
// Of one with a type that the others do not have: masters or moments narrower than FP32, parts of
// different types, compute weights in FP8. May have all that version 2 may.
inline constexpr int64_t kTypedManifestVersion = 3;
// Limits of the decoder.
inline constexpr int64_t kManifestBytesMax = int64_t{1} << 30;
inline constexpr int64_t kManifestRanksMax = 1 << 20;
inline constexpr int64_t kOperatorNameBytesMax = 512;
inline constexpr int64_t kFlatSizeMax = int64_t{1} << 48;
// Of one expert; what every reader of JSON holds exactly.
inline constexpr int64_t kHistoryTokensMax = int64_t{1} << 53;

// One part of one shard: range.size() elements of its type in state_types.
struct ManifestTensor {
  int64_t offset = 0;  // bytes from the beginning of the file
  Fingerprint fingerprint;
  friend bool operator==(const ManifestTensor&, const ManifestTensor&) = default;
};

struct ManifestShard {
  int file = 0;  // index in Manifest::files
  FlatRange range;
  std::array<ManifestTensor, kStatePartCount> parts;  // indexed by StatePart
  // Of the compute weights of this range when they were saved; nullopt if the saver did not say.
  std::optional<Fingerprint> compute;
  friend bool operator==(const ManifestShard&, const ManifestShard&) = default;
};

struct ManifestOperator {
  std::string name;
  int64_t flat_size = 0;
  std::vector<ManifestShard> shards;  // by range.begin, all of one step
  // Of an expert: gate choices (tokens) that it has learned from between the state saved here and
  // the checkpoint's step, which a restart from this checkpoint loses; and what all restarts before
  // have lost.
  int64_t unsaved_tokens = 0;
  int64_t lost_tokens = 0;
  friend bool operator==(const ManifestOperator&, const ManifestOperator&) = default;
};

struct ManifestFile {
  std::string name;  // always rank_file_name(rank)
  int rank = 0;
  int64_t bytes = 0;
  int64_t header_bytes = 0;  // where the data of the safetensors file begins
  Fingerprint header;        // of those bytes
  Step step{-1};             // of the checkpoint in whose folder it lies; -1: this one's own
  friend bool operator==(const ManifestFile&, const ManifestFile&) = default;
};

// Of one expert, in the part of one rank: whether its state is in this save, and the numbers of
// ManifestOperator.
struct ExpertHistory {
  std::string name;
  int64_t unsaved_tokens = 0;
  int64_t lost_tokens = 0;
  bool is_saved = true;
  friend bool operator==(const ExpertHistory&, const ExpertHistory&) = default;
};

struct Manifest {
  TrainingPosition position;
  int world_size = 1;
  std::string topology;  // for people
  // Of the run that saved (checkpoint/write/folder_term.h); 0 and empty where there was none.
  int64_t term = 0;
  std::string term_owner;
  std::string job;
  PartTypes state_types = same_types(ElementType::kFp32);
  ElementType compute_type = ElementType::kFp32;
  // The own ones by rank, one of every rank (in a part: of this rank), then older ones by step and
  // rank.
  std::vector<ManifestFile> files;
  std::vector<ManifestOperator> operators;  // by name

  // Only in parts. The published checkpoint that supplies what is not saved here, -1 for none, and
  // the fingerprint of its manifest: it may have been replaced by another of its step since.
  Step base{-1};
  Fingerprint base_manifest;
  // The view in which this rank last went back, or of a save on a machine's own disk the one in
  // which the whole job last resumed: afterwards the same step may have other bits, and a process
  // that does not know of it must not mix its own with them.
  int64_t view = 0;
  // By name. Of each stage one rank has those of all experts of its layers.
  std::vector<ExpertHistory> histories;

  // nullptr if there is none.
  const ManifestOperator* find(const std::string& operator_name) const;
  // Bytes of one part of this shard.
  int64_t tensor_bytes(const ManifestShard& shard, StatePart part) const {
    return stored_bytes(type_of(state_types, part), shard.range.size());
  }
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// The step of the state of `op`, an operator of `manifest`, that the checkpoint holds.
Step saved_at(const Manifest& manifest, const ManifestOperator& op);

// Whether its operators are of different steps.
bool is_mixed(const Manifest& manifest);

// The older checkpoints in whose folders it has files, in increasing order.
std::vector<Step> needed_steps(const Manifest& manifest);

// By file, the bytes that are the checkpoint's: of an own one all, of an older one the tensors that
// are taken from it.
std::vector<int64_t> used_bytes(const Manifest& manifest);

enum class ManifestKind { kCheckpoint, kRankPart };

// What a text of this kind says that it is.
const char* manifest_format(ManifestKind kind);

// InvalidInput if a text in it is not UTF-8. REQUIRES: loss_scale is finite. A validation loss that
// is not finite is written as "none".
absl::StatusOr<std::string> manifest_text(const Manifest& manifest, ManifestKind kind);

// The manifest's text from its JSON without the opening brace: puts the line with the fingerprint
// before it.
std::string seal_manifest(const std::string& body);

// What the first line of a manifest's text says, of which the beginning is enough: nothing is
// checked against it. Corrupt, beginning with `name`, if there is no such line.
inline constexpr int64_t kManifestLineBytes = 51;
absl::StatusOr<Fingerprint> stated_fingerprint(const std::string& text, const std::string& name);

// Checks everything that can be checked without the other files: fingerprint, version, types,
// limits, order, that tensors lie inside their files, and for a checkpoint that it is complete.
// Errors begin with `name`: Corrupt, or Unsupported for another schema version.
absl::StatusOr<Manifest> parse_manifest(const std::string& text, ManifestKind kind,
                                        const std::string& name);

// Every operator is covered from 0 to flat_size, once, by the states of one step, and every rank
// has a file. Corrupt says what is missing or which two ranks hold the same elements.
absl::Status check_complete(const Manifest& manifest);

// What `manifest` has in the folder of the checkpoint `older` is what `older` itself has there:
// that folder may have been replaced by another save of its step. Corrupt names the file in
// `folder`.
absl::Status check_source(const Manifest& manifest, const Manifest& older,
                          const std::string& folder);

// The checkpoint's manifest from the parts of ranks 0, 1, ... in order; checked as above. An
// operator that no rank holds and whose history says so comes from `base`, whose position.step is
// what the parts name (nullptr: they name none). Corrupt if they disagree about position, types or
// sizes, if a history and what is saved do not agree, and if an operator is nowhere. The validation
// loss is rank 0's. Whether `base` is the base_manifest of the parts is for the caller to compare.
absl::StatusOr<Manifest> merge_manifests(std::span<const Manifest> parts,
                                         const Manifest* base = nullptr);

}  // namespace evermoe
