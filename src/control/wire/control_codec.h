// Envelopes as bytes.
//
// Numbers are little-endian and of fixed width; lists, texts and what may be missing have their
// size before them; alternatives have their number. Both ends of a stream are of the same version:
// the name of the call says which (control_stream.h), so nothing in here does.
//
// Written by hand because protobuf cannot be linked beside libsentencepiece, which `evermoe` needs
// to tokenize and `evermoe-worker` to read texts: Debian's library exports its own protobuf 3.14. A
// program with one message of the system's protobuf 3.21 and one SentencePieceProcessor, linked in
// this order, aborts before main() ("compiled against version 3.14.0 ... not compatible with the
// installed version"); in the other order it ends with a segmentation fault. libtorch_cpu exports
// 232 symbols of a third copy. A static protobuf with hidden symbols does link, but then one
// process holds two or three copies of it, for two dozen small messages whose decoder is fuzzed
// here.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "control/wire/control_messages.h"

namespace evermoe {

// Texts longer than kTextBytesMax are cut.
std::string encode(const Envelope& envelope);

// Corrupt for anything that encode() cannot have written: negative ranks, steps below -1, lists and
// texts beyond the limits of control_messages.h, bytes that are missing or left over.
absl::StatusOr<Envelope> decode_envelope(const std::string& bytes);

}  // namespace evermoe
