// What rendezvous members and server say to each other: a 4-byte big-endian length, then that many
// bytes of JSON. A member sends one join; the server answers with any number of waiting messages
// and at last one result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace evermoe {

inline constexpr int kRendezvousVersion = 1;
// A join holds one address and one fingerprint text; a result holds all addresses.
inline constexpr size_t kJoinBytesMax = size_t{256} << 10;
inline constexpr size_t kReplyBytesMax = size_t{16} << 20;
inline constexpr size_t kLengthBytes = 4;

struct JoinMessage {
  int rank = 0;
  int world_size = 0;
  std::string address;
  std::string fingerprint;
};

struct ReplyMessage {
  bool is_result = false;
  std::vector<int> missing;            // of a waiting message
  std::string refusal;                 // of a result: why not; empty if it is a success
  std::vector<std::string> addresses;  // of a successful result
};

// With the length in front.
std::string encode(const JoinMessage& message);
std::string encode(const ReplyMessage& message);

// Without it. Corrupt if the bytes are no such message, InvalidInput for another version.
absl::StatusOr<JoinMessage> decode_join(const std::string& body);
absl::StatusOr<ReplyMessage> decode_reply(const std::string& body);

// REQUIRES: kLengthBytes bytes at `bytes`.
size_t decode_length(const char* bytes);

// Ok if all are equal. Otherwise InvalidInput that names the ranks that differ from rank 0 and, for
// texts of "key=value" lines, the keys with both values.
absl::Status compare_fingerprints(const std::vector<std::string>& by_rank);

}  // namespace evermoe
