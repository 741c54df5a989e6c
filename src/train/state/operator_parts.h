// Operators cut into parts, which are captured, restored, frozen and updated one by one. Pure.
//
// The update works element by element, so one part of an operator's masters and moments can be of
// one step and the rest of another. Whoever captures operators is given parts as if they were
// operators: a large embedding then costs no slot of a window more than anything else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/operator.h"

namespace evermoe {

struct OperatorPart {
  size_t operator_index = 0;  // in the list that was cut
  FlatRange range;            // of its flat layout
  std::string
      name;  // the operator's, and which part of how many: "embedding[0/4]"; plain if it is whole
};

// The parts of every operator, in order. An operator has as few as keep each at most
// `part_bytes_max` large, where kFlatAlignment elements have `block_bytes`; they are cut at
// multiples of kFlatAlignment and differ in size by at most that. No part is smaller than
// kFlatAlignment elements, whatever the limit.
// REQUIRES: block_bytes > 0, part_bytes_max > 0.
std::vector<OperatorPart> cut_operators(const std::vector<OperatorSpec>& operators,
                                        int64_t block_bytes, int64_t part_bytes_max);

// What protection.part_bytes (0: "auto") comes to in a stage whose operators' full snapshots have
// `stage_bytes`: small enough that they can be divided into windows of many slots, large enough
// that many parts cost nothing.
int64_t resolve_part_bytes(int64_t configured, int64_t stage_bytes);

}  // namespace evermoe
