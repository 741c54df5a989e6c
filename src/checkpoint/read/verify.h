// Checking every byte of a checkpoint.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/read/shard_reader.h"

namespace evermoe {

// CheckpointReader::verify().
std::vector<std::string> verify_checkpoint(const Manifest& manifest, ShardReader& shards);

// A block of master weights cast to the compute type; the block itself where the types are equal.
// `memory` is kept between calls and holds the result.
std::span<const std::byte> cast_block(const Manifest& manifest, std::span<const std::byte> block,
                                      std::vector<std::byte>& memory);

}  // namespace evermoe
