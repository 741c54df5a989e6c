// The 32 bytes in front of every message on a stream, the 32 bytes by which two processes make
// themselves known to each other, and the strict decoders of both.
//
// Layout of a frame (host byte order: both ends are on one host):
//   0 magic u32 | 4 kind u16 | 6 group u16 | 8 view u32 | 12 purpose u32 |
//   16 length u64 | 24 zero u32 | 28 checksum u32 (XXH3 of the 28 bytes before it)
// `length` bytes of payload follow a kData frame; the other kinds have none. The version is part of
// the magic: another version is not decoded.
//
// Layout of a greeting (little endian):
//   0 magic u32 | 4 version u16 | 6 kind u16 | 8 rank u32 | 12 world size u32 |
//   16 process u64 | 24 since u32 | 28 checksum u32 (as above)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "comm/transport/transport.h"

namespace evermoe {

enum class FrameKind : uint16_t {
  kData = 1,     // one message
  kGoodbye = 2,  // the sender leaves in peace; nothing follows
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

// REQUIRES: bytes.size() == kFrameHeaderBytes. Any bytes are allowed; those that encode_frame()
// does not produce give Corrupt.
absl::StatusOr<FrameHeader> decode_frame(std::span<const std::byte> bytes);

enum class GreetingKind : uint16_t {
  kHello = 0,
  kCallMe = 1,  // from the older of two processes: the younger one is the one that calls
};

// Who speaks. The rank alone does not say: processes that play a rank follow each other.
struct Greeting {
  Rank rank;
  uint32_t world_size = 0;
  View since;            // the view in which the younger of the two processes joined
  uint64_t process = 0;  // process_number() of its address
  GreetingKind kind = GreetingKind::kHello;
  friend bool operator==(const Greeting&, const Greeting&) = default;
};

inline constexpr size_t kGreetingBytes = 32;
using GreetingBytes = std::array<std::byte, kGreetingBytes>;

// Tells processes apart by their addresses, which are random.
uint64_t process_number(std::string_view address);

GreetingBytes encode_greeting(const Greeting& greeting);

// REQUIRES: bytes.size() == kGreetingBytes. Any bytes are allowed; those that encode_greeting()
// does not produce give Corrupt, and Unsupported if they are a greeting of another version.
absl::StatusOr<Greeting> decode_greeting(std::span<const std::byte> bytes);

}  // namespace evermoe
