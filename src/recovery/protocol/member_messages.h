// The messages that the members of a job write to each other: requests, answers, copies. The kind
// is the message's Tag::purpose, the view its Tag::view.
//
// Numbers are little-endian. A decoder gives Corrupt for anything that its encoder cannot have
// written.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/fingerprint.h"
#include "base/ids.h"
#include "comm/transport/transport.h"
#include "protection/logs/boundary_log.h"
#include "protection/logs/record_log.h"
#include "protection/schedule/capture_schedule.h"

namespace evermoe {

enum class MessageKind : uint32_t {
  kWake,          // to oneself: look around; empty
  kChunk,         // a chunk of a snapshot: Chunk::block()
  kAcknowledge,   // SlotMessage: all chunks of that slot have come and are sound
  kWantSlot,      // WantedSlot: send me your share of the chunks that I do not have
  kOffer,         // SlotMessage: of my own; acknowledge it or want it
  kCannot,        // SlotMessage: I have no usable copy of that slot
  kWantRecords,   // Commit: send me all records from that commit on
  kRecords,       // Records
  kWantBoundary,  // NamedBoundary without bytes
  kBoundary,      // NamedBoundary with bytes
  kAudit,         // NamedBoundary whose bytes are the fingerprint of a message computed again
  kForget,        // you keep none of my copies any more, and those who do have all; empty
  kCorrupt,       // a rehearsed fault: damage what you hold of my snapshots; empty
  kProbe,         // the number of a probe and, of a large one, zeros: send me kEcho; in any view
  kEcho,          // the number of the probe that this answers; likewise
  kComing,        // PeerAddress: my joiner, which will connect with you
  kConnect,       // Neighbours: to my joiner: connect with these, as I am connected
};

using MessageBytes = std::vector<std::byte>;

struct SlotMessage {
  Rank owner;
  SlotTime time;
};
MessageBytes encode(const SlotMessage& message);
absl::StatusOr<SlotMessage> decode_slot_message(std::span<const std::byte> bytes);

// Of a slot's chunks those whose number leaves this remainder: others send the rest.
struct ChunkShare {
  int32_t remainder = 0;
  int32_t divisor = 1;
  bool contains(int32_t chunk) const { return chunk % divisor == remainder; }
  friend bool operator==(const ChunkShare&, const ChunkShare&) = default;
};

struct WantedSlot {
  SlotMessage slot;
  std::vector<int32_t> have;  // numbers of chunks, ascending
  ChunkShare share;
};
MessageBytes encode(const WantedSlot& message);
absl::StatusOr<WantedSlot> decode_wanted_slot(std::span<const std::byte> bytes);

MessageBytes encode(const PeerAddress& address);
absl::StatusOr<PeerAddress> decode_peer_address(std::span<const std::byte> bytes);

// A process with which another one is connected.
struct Neighbour {
  PeerAddress address;
  PeerAddress joiner;     // who is to play its role next; without an address: that is not known
  bool messages = false;  // for these
  bool service_messages = false;
  friend bool operator==(const Neighbour&, const Neighbour&) = default;
};
using Neighbours = std::map<Rank, Neighbour>;
MessageBytes encode(const Neighbours& neighbours);
absl::StatusOr<Neighbours> decode_neighbours(std::span<const std::byte> bytes);

MessageBytes encode(Commit commit);
absl::StatusOr<Commit> decode_commit_message(std::span<const std::byte> bytes);

using Records = std::vector<std::pair<Commit, RecordBytes>>;
MessageBytes encode(const Records& records);
absl::StatusOr<Records> decode_records_message(std::span<const std::byte> bytes);

// A view into the message.
struct NamedBoundary {
  BoundaryName name;
  std::span<const std::byte> bytes;
};
MessageBytes encode(const NamedBoundary& message);
absl::StatusOr<NamedBoundary> decode_named_boundary(std::span<const std::byte> bytes);

// `size`: of the message, or less than that of the number alone.
MessageBytes encode_probe(uint64_t number, size_t size = 0);
absl::StatusOr<uint64_t> decode_probe(std::span<const std::byte> bytes);

MessageBytes encode_audit(const BoundaryName& name, const Fingerprint& fingerprint);
absl::StatusOr<Fingerprint> decode_audited(const NamedBoundary& message);

}  // namespace evermoe
