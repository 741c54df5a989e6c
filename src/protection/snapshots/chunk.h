// A chunk of a snapshot: the unit that is captured, sent, stored and restored. One block of memory
// holds its header and its bytes, so that it goes over the wire and into a peer's store as it is.
//
//   bytes 0..7 magic "EVMPIECE" · 8..11 version · 12..15 owner · 16..23 window · 24..27 slot ·
//   28..31 slots of the window · 32..35 chunk · 36..39 chunks of the slot ·
//   40..43 operator (-1 none) · 44 kind · 45..47 zero · 48..55 offset · 56..63 size ·
//   64..79 fingerprint of the bytes ·
//   80..95 fingerprint of bytes 0..79 · 96..127 zero · then the bytes. Little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fingerprint.h"
#include "base/ids.h"
#include "protection/schedule/capture_schedule.h"

namespace evermoe {

struct ChunkHeader {
  Rank owner;  // whose state it is
  Step window;
  int32_t slot = 0;   // from `slots` on: gradients; or of a hand-over
  int32_t slots = 0;  // of the window, without gradients
  int32_t chunk = 0;
  int32_t chunks = 0;
  int32_t operator_index = -1;
  SnapshotKind kind = SnapshotKind::kFull;
  int64_t offset = 0;
  int64_t size = 0;
  Fingerprint fingerprint;  // of the bytes
};

class Chunk {
 public:
  static constexpr size_t kHeaderBytes = 128;
  // No chunk is longer: what a peer can make this process allocate.
  static constexpr int64_t kBytesMax = int64_t{4} << 20;

  Chunk() = default;
  // Room for a chunk that is to be captured; fill body(), then seal().
  static Chunk make(const ChunkHeader& header);
  // The same in a block of kHeaderBytes + header.size that has been taken for it.
  static Chunk make(const ChunkHeader& header, std::shared_ptr<std::byte[]> block);
  // Takes over a block that has come from somewhere. Corrupt unless header and length agree; the
  // bytes' fingerprint is not looked at.
  static absl::StatusOr<Chunk> from_block(std::shared_ptr<std::byte[]> block, size_t size);

  const ChunkHeader& header() const { return header_; }
  std::span<const std::byte> block() const {
    return {block_.get(), kHeaderBytes + static_cast<size_t>(header_.size)};
  }
  std::span<const std::byte> body() const { return block().subspan(kHeaderBytes); }
  std::span<std::byte> writable_body() {
    return {block_.get() + kHeaderBytes, static_cast<size_t>(header_.size)};
  }
  // Keeps the block alive, for a send that outlives the chunk.
  std::shared_ptr<const void> owner() const { return block_; }

  // Computes the fingerprint of the body and writes the header.
  void seal();
  // Corrupt, naming the chunk, unless the body has the fingerprint of the header.
  absl::Status verify() const;

 private:
  ChunkHeader header_;
  std::shared_ptr<std::byte[]> block_;
};

}  // namespace evermoe
