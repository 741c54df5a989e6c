// The manifest of a checkpoint: what is in it, where each byte lies and what its fingerprint is.
// docs/formats/checkpoint.md describes the text.
//
// The same structure serves twice: each rank writes a *part* (its own file alone), and publishing
// merges the parts of all ranks into the checkpoint's manifest.
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
// Limits of the decoder.
inline constexpr int64_t kManifestBytesMax = int64_t{1} << 30;
inline constexpr int64_t kManifestRanksMax = 1 << 20;
inline constexpr int64_t kOperatorNameBytesMax = 512;
inline constexpr int64_t kFlatSizeMax = int64_t{1} << 48;

// One part of one shard: range.size() elements of state_type.
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
  std::vector<ManifestShard> shards;  // by range.begin
  friend bool operator==(const ManifestOperator&, const ManifestOperator&) = default;
};

struct ManifestFile {
  std::string name;  // always rank_file_name(rank)
  int rank = 0;
  int64_t bytes = 0;
  int64_t header_bytes = 0;  // where the data of the safetensors file begins
  Fingerprint header;        // of those bytes
  friend bool operator==(const ManifestFile&, const ManifestFile&) = default;
};

struct Manifest {
  TrainingPosition position;
  int world_size = 1;
  std::string topology;  // for people
  // Of the run that saved (checkpoint/write/folder_term.h); 0 and empty where there was none.
  int64_t term = 0;
  std::string term_owner;
  std::string job;
  ElementType state_type = ElementType::kFp32;
  ElementType compute_type = ElementType::kFp32;
  std::vector<ManifestFile> files;          // by rank
  std::vector<ManifestOperator> operators;  // by name

  // nullptr if there is none.
  const ManifestOperator* find(const std::string& operator_name) const;
  // Bytes of one part of this shard.
  int64_t tensor_bytes(const ManifestShard& shard) const {
    return shard.range.size() * element_bytes(state_type);
  }
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

enum class ManifestKind { kCheckpoint, kRankPart };

// InvalidInput if a text in it is not UTF-8. REQUIRES: loss_scale is finite. A validation loss that
// is not finite is written as "none".
absl::StatusOr<std::string> manifest_text(const Manifest& manifest, ManifestKind kind);

// The manifest's text from its JSON without the opening brace: puts the line with the fingerprint
// before it.
std::string seal_manifest(const std::string& body);

// Checks everything that can be checked without the other files: fingerprint, version, types,
// limits, order, that tensors lie inside their files, and for a checkpoint that it is complete.
// Errors begin with `name`: Corrupt, or Unsupported for another schema version.
absl::StatusOr<Manifest> parse_manifest(const std::string& text, ManifestKind kind,
                                        const std::string& name);

// Every operator is covered from 0 to flat_size, once, and every rank has a file. Corrupt says what
// is missing or which two ranks hold the same elements.
absl::Status check_complete(const Manifest& manifest);

// The checkpoint's manifest from the parts of ranks 0, 1, ... in order; checked as above. Corrupt
// if they disagree about position, types or sizes. The validation loss is rank 0's.
absl::StatusOr<Manifest> merge_manifests(std::span<const Manifest> parts);

}  // namespace evermoe
