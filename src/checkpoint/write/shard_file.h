// A rank's file of a checkpoint: its layout, and writing it at the disk's speed.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fingerprint.h"
#include "checkpoint/format/element_type.h"
#include "checkpoint/write/staging_buffer.h"
#include "env/files.h"
#include "model/operator.h"

namespace evermoe {

struct ShardShape {
  std::string operator_name;
  int64_t flat_size = 0;
  FlatRange range;
};

// The file is the header, then per shard its three parts one after the other. The data begins at a
// multiple of kDirectAlignment.
struct ShardFileLayout {
  std::string header;
  int64_t file_bytes = 0;
  std::vector<std::array<int64_t, kStatePartCount>> offsets;  // per shard and part, in the file

  // What writing takes: file_bytes rounded up, so that every write bypasses the page cache.
  int64_t staging_bytes() const {
    return (file_bytes + kDirectAlignment - 1) / kDirectAlignment * kDirectAlignment;
  }
};

// The safetensors name of a part of an operator: "layer.3.gate/exp_avg".
std::string tensor_name(const std::string& operator_name, StatePart part);

// InvalidInput for empty, repeated or overlong names and for ranges outside of [0, flat_size).
absl::StatusOr<ShardFileLayout> lay_out_shard_file(std::span<const ShardShape> shards,
                                                   const PartTypes& types);

struct ShardWriteOptions {
  int64_t block_bytes = 8 << 20;  // of one write; a multiple of kDirectAlignment
  int threads = 2;                // writes in flight
};

// Writes the first `file_bytes` of `staging` to a new file as `progress` allows, and syncs it. The
// caller syncs the folder. Errors name the file.
absl::Status write_staged_file(Files& files, const std::string& path,
                               std::span<const std::byte> staging, int64_t file_bytes,
                               StagingProgress& progress, const ShardWriteOptions& options);

}  // namespace evermoe
