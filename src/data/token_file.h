// Token files: a memory-mapped array of token numbers with a checked header, and the text that is
// turned into them.
//
// Format (docs/formats/token-file.md): 8 bytes "EVERTOK1", u32 bytes per token (1, 2 or 4), u32
// vocabulary, u64 token count, 16 bytes XXH3-128 of the tokens (high half first), zero padding to
// 64 bytes, then the tokens. All numbers are little-endian.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fingerprint.h"

namespace evermoe {

inline constexpr int64_t kTokenVocabularyMax = int64_t{1} << 31;  // token numbers fit int32
inline constexpr int64_t kTokensMax = int64_t{1} << 40;

// Immutable; safe to share between threads.
class TokenFile {
 public:
  // Maps the file. Corrupt names the file and what is wrong with it; NotFound if there is none.
  static absl::StatusOr<std::unique_ptr<TokenFile>> open(const std::string& path);
  virtual ~TokenFile() = default;

  virtual int64_t size() const = 0;  // tokens
  virtual int64_t vocabulary() const = 0;
  virtual Fingerprint contents() const = 0;  // as stored in the header
  // Recomputes it and looks for tokens outside the vocabulary: Corrupt. Reads the whole file.
  virtual absl::Status verify() const = 0;
  // Copies tokens [begin, begin + into.size()). REQUIRES: they exist.
  virtual void read(int64_t begin, std::span<int64_t> into) const = 0;
};

// What the header of a token file says.
struct TokenFileHeader {
  int64_t bytes_per_token = 1;
  int64_t vocabulary = 1;
  int64_t tokens = 0;
  Fingerprint contents;
};
inline constexpr int64_t kTokenFileHeaderBytes = 64;

std::string encode_token_file_header(const TokenFileHeader& header);
// Corrupt says what is wrong. `file_bytes` is the size of the whole file.
absl::StatusOr<TokenFileHeader> decode_token_file_header(std::span<const std::byte> bytes,
                                                         int64_t file_bytes);

// Writes a token file piece by piece, under a temporary name of its own until finish(): processes
// that write the same file at the same time do not disturb each other, the last one stays.
class TokenFileWriter {
 public:
  // InvalidInput for an impossible vocabulary, otherwise the codes of env/files.h.
  static absl::StatusOr<std::unique_ptr<TokenFileWriter>> create(const std::string& path,
                                                                 int64_t vocabulary);
  // Without finish(), removes what was written.
  virtual ~TokenFileWriter() = default;

  // InvalidInput for a token outside the vocabulary. Blocks as the disk does.
  virtual absl::Status append(std::span<const int32_t> tokens) = 0;
  // Syncs and gives the file its name. Call once, last.
  virtual absl::Status finish() = 0;
};

// All at once.
absl::Status write_token_file(const std::string& path, int64_t vocabulary,
                              std::span<const int32_t> tokens);

}  // namespace evermoe
