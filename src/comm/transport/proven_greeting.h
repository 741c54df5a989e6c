// Greetings between machines: who speaks, and the proof that it knows the job's secret.
//
// Layout: 0 greeting (frame.h, 32 bytes) | 32 nonce of the sender (16) |
//   48 HMAC-SHA256 with the job's secret (32), of the 48 bytes before it and of what both ends know
//   without saying it: to whom the greeting goes, and what it means.
//
// The hash says that the sender belongs to the job and means this receiver. That it is not an old
// greeting, played again, shows in what follows: every later message carries the pass of its
// connection, which is made of the nonces of both ends, so who does not know the secret cannot have
// it, whatever greetings he has.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "comm/transport/frame.h"
#include "comm/transport/job_secret.h"

namespace evermoe {

using Nonce = std::array<std::byte, 16>;
Nonce new_nonce();

inline constexpr size_t kProvenGreetingBytes =
    kGreetingBytes + sizeof(Nonce) + JobSecret::kMacBytes;
using ProvenGreetingBytes = std::array<std::byte, kProvenGreetingBytes>;

struct ProvenGreeting {
  Greeting greeting;
  Nonce nonce{};
  friend bool operator==(const ProvenGreeting&, const ProvenGreeting&) = default;
};

// To whom, and what for.
struct GreetingReceiver {
  Rank rank;
  uint64_t process = 0;  // process_number() of its address
  uint32_t purpose = 0;
};

ProvenGreetingBytes encode_proven_greeting(const JobSecret& secret, const ProvenGreeting& greeting,
                                           const GreetingReceiver& to);

// REQUIRES: bytes.size() == kProvenGreetingBytes. Any bytes are allowed; PermissionDenied if their
// hash is not of this secret and receiver, else as decode_greeting(). Nothing of them is looked at
// before the hash.
absl::StatusOr<ProvenGreeting> decode_proven_greeting(const JobSecret& secret,
                                                      std::span<const std::byte> bytes,
                                                      const GreetingReceiver& to);

// What every message from one process to another carries.
struct Pass {
  uint64_t token = 0;
  uint64_t tag = 0;  // random bits for its name
};
// `from` has greeted with this, and the other end, which is `to`, with that.
Pass pass_between(const JobSecret& secret, const ProvenGreeting& from, const ProvenGreeting& to);

}  // namespace evermoe
