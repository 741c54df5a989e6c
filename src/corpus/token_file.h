// Token files: a memory-mapped array of token numbers with a checked header, and the text that is
// turned into them.
//
// Format (docs/formats/token-file.md): 8 bytes "EVERTOK1", u32 bytes per token (1, 2 or 4), u32
// vocabulary, u64 token count, 16 bytes XXH3-128 of the tokens, zero padding to 64 bytes, then the
// tokens, little-endian.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fingerprint.h"

namespace evermoe {

// Immutable; safe to share between threads.
class TokenFile {
 public:
  // Maps the file. Corrupt names the file and what is wrong with it; NotFound if there is none.
  static absl::StatusOr<std::unique_ptr<TokenFile>> open(const std::string& path);
  virtual ~TokenFile() = default;

  virtual int64_t size() const = 0;              // tokens
  virtual int64_t vocabulary() const = 0;
  virtual Fingerprint contents() const = 0;      // as stored in the header
  virtual absl::Status verify() const = 0;       // recomputes it
  // Copies tokens [begin, begin + into.size()). REQUIRES: they exist.
  virtual void read(int64_t begin, std::span<int64_t> into) const = 0;
};

// Writes a token file (to a temporary name, fsync, rename).
absl::Status write_token_file(const std::string& path, int64_t vocabulary,
                              std::span<const int32_t> tokens);

}  // namespace evermoe
