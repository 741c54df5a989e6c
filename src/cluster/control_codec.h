// Envelopes as bytes.
//
// Numbers are little-endian and of fixed width; lists, texts and what may be missing have their size
// before them; alternatives have their number. Both ends of a stream are of the same version: the name of
// the call says which (control_stream.h), so nothing in here does.
//
// Written by hand because protobuf cannot be linked beside libsentencepiece and libtorch: both bring
// copies of it, of other versions and with the same symbols, and the process dies before main().
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "cluster/control_messages.h"

namespace evermoe {

// Texts longer than kTextBytesMax are cut.
std::string encode(const Envelope& envelope);

// Corrupt for anything that encode() cannot have written: negative ranks, steps below -1, lists and texts
// beyond the limits of control_messages.h, bytes that are missing or left over.
absl::StatusOr<Envelope> decode_envelope(const std::string& bytes);

}  // namespace evermoe
