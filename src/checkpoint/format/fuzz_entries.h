// What the fuzzers and the mutation test feed to the decoders: any bytes must end in a value or an
// error, never in a crash, and a value must survive being written and read again.
#pragma once

#include <cstddef>
#include <span>

namespace evermoe {

// Each returns whether the bytes were accepted.
bool fuzz_safetensors_header(std::span<const std::byte> bytes);
// The text as it is, and again as the body of a manifest with a good fingerprint: otherwise nothing
// would ever get past the first line.
bool fuzz_manifest(std::span<const std::byte> bytes);

}  // namespace evermoe
