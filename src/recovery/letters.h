// The letters that the members of a job write to each other: requests, answers, copies. The kind is the
// letter's Tag::purpose, the view its Tag::view.
//
// Numbers are little-endian. A decoder gives Corrupt for anything that its encoder cannot have written.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/fingerprint.h"
#include "snapshot/capture_schedule.h"
#include "upstream/boundary_log.h"
#include "upstream/record_log.h"

namespace evermoe {

enum class LetterKind : uint32_t {
  kWake,          // to oneself: look around; empty
  kPiece,         // a piece of a snapshot: Piece::block()
  kAcknowledge,   // SlotLetter: all pieces of that slot have come and are sound
  kWantSlot,      // SlotLetter: send me the pieces of that slot
  kCannot,        // SlotLetter: I have no usable copy of that slot
  kWantRecords,   // CommitLetter: send me all records from that commit on
  kRecords,       // RecordsLetter
  kWantBoundary,  // BoundaryLetter without bytes
  kBoundary,      // BoundaryLetter with bytes
  kAudit,         // BoundaryLetter whose bytes are the fingerprint of a message computed again
  kSpoil,         // a rehearsed disaster: damage what you hold of my snapshots; empty
};

using LetterBytes = std::vector<std::byte>;

struct SlotLetter {
  Rank owner;
  SlotTime time;
};
LetterBytes encode(const SlotLetter& letter);
absl::StatusOr<SlotLetter> decode_slot_letter(std::span<const std::byte> bytes);

LetterBytes encode(Commit commit);
absl::StatusOr<Commit> decode_commit_letter(std::span<const std::byte> bytes);

using Records = std::vector<std::pair<Commit, RecordBytes>>;
LetterBytes encode(const Records& records);
absl::StatusOr<Records> decode_records_letter(std::span<const std::byte> bytes);

// A view into the letter.
struct BoundaryLetter {
  BoundaryName name;
  std::span<const std::byte> bytes;
};
LetterBytes encode(const BoundaryLetter& letter);
absl::StatusOr<BoundaryLetter> decode_boundary_letter(std::span<const std::byte> bytes);

LetterBytes encode_audit(const BoundaryName& name, const Fingerprint& fingerprint);
absl::StatusOr<Fingerprint> decode_audited(const BoundaryLetter& letter);

}  // namespace evermoe
