// Chunks for tests, without a capture.
#pragma once

#include <algorithm>
#include <cstddef>

#include "protection/snapshots/chunk.h"

namespace evermoe {

// Sealed, with the same byte everywhere.
inline Chunk filled_chunk(const ChunkHeader& header, std::byte filling = std::byte{3}) {
  Chunk chunk = Chunk::make(header);
  std::ranges::fill(chunk.writable_body(), filling);
  chunk.seal();
  return chunk;
}

}  // namespace evermoe
