// What goes before each slot of a hand-over: the position, and the record that led to it, so that a
// process that takes the role needs no record that the others may have freed.
#pragma once

#include <span>

#include "absl/status/statusor.h"
#include "recovery/protocol/findings.h"

namespace evermoe {

struct HandedPosition {
  RecordBytes position;
  Record record;
};

RecordBytes encode(const HandedPosition& handed);
absl::StatusOr<HandedPosition> decode_handed_position(std::span<const std::byte> bytes);  // Corrupt

}  // namespace evermoe
