// The 32 bytes in front of every message on a stream, and their strict decoder.
//
// Layout (host byte order: both ends are on one host):
//   0 magic u32 | 4 kind u16 | 6 group u16 | 8 view u32 | 12 purpose u32 |
//   16 length u64 | 24 zero u32 | 28 checksum u32 (XXH3 of the 28 bytes before it)
// `length` bytes of payload follow a kData frame; the other kinds have none. The version is part of
// the magic: another version is not decoded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "comm/transport.h"

namespace evermoe {

enum class FrameKind : uint16_t {
  kData = 1,     // one message
  kGoodbye = 2,  // the sender leaves in peace; nothing follows
  kHello = 3,    // first frame of a connection: purpose = sender's rank, view = world size
};

struct FrameHeader {
  FrameKind kind = FrameKind::kData;
  Tag tag;
  uint64_t length = 0;
};

inline constexpr size_t kFrameHeaderBytes = 32;
// No message is longer; a header that says so is damaged.
inline constexpr uint64_t kFramePayloadBytesMax = uint64_t{1} << 40;

using FrameBytes = std::array<std::byte, kFrameHeaderBytes>;

FrameBytes encode_frame(const FrameHeader& header);

// REQUIRES: bytes.size() == kFrameHeaderBytes. Any bytes are allowed; those that encode_frame() does
// not produce give Corrupt.
absl::StatusOr<FrameHeader> decode_frame(std::span<const std::byte> bytes);

}  // namespace evermoe
