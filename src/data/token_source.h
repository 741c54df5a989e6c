// From a text to tokens ready for training: tokenized once, kept in a cache, split in two parts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "data/token_file.h"

namespace evermoe {

struct TokenSource {
  std::string path;  // a text, or a token file (".tokens")
  std::string tokenizer = "bytes";
  std::string validation_path = "";  // the same; empty: the last part of `path` is held out
  double validation_fraction = 0.1;  // 0 for no validation
};

bool is_token_file(const std::string& path);

// What is known about a text or token file without reading it.
struct SourceFacts {
  int64_t tokens_max = 0;  // exact for token files and bytes
  int64_t vocabulary = 0;
};
// NotFound, Corrupt, or InvalidInput for a folder.
absl::StatusOr<SourceFacts> source_facts(const std::string& path, const std::string& tokenizer);

struct TokenPaths {
  std::string training;
  std::string validation;  // empty: held out of `training`
  double validation_fraction = 0;
};

// Token files of the source. Token files are taken as they are; texts are tokenized into
// `cache_directory` under a name made of the fingerprints of text and tokenizer, unless that file
// is there and whole. Any number of processes may do this at once for the same cache. Every file is
// verified. InvalidInput for a missing source, otherwise the codes of TokenFile and env/files.h.
absl::StatusOr<TokenPaths> prepare_tokens(const TokenSource& source,
                                          const std::string& cache_directory);

// Tokenizes one text file into a token file; returns the number of tokens. A text that is read
// piece by piece, so its size is no matter.
absl::StatusOr<int64_t> tokenize_file(const std::string& text_path, const std::string& tokenizer,
                                      const std::string& token_path);

// Tokens [begin, end) of a file.
struct TokenPart {
  std::shared_ptr<const TokenFile> file;
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
  // Copies tokens [first, first + into.size()) of the part. REQUIRES: they exist.
  void read(int64_t first, std::span<int64_t> into) const;
};

struct TokenParts {
  TokenPart training;
  TokenPart validation;  // of size 0 where there is none
};

// Maps what prepare_tokens() returned; no verification again.
absl::StatusOr<TokenParts> open_token_parts(const TokenPaths& paths);

// Length of the held-out last part of a file of so many tokens.
int64_t held_out_tokens(int64_t tokens, double validation_fraction);

}  // namespace evermoe
