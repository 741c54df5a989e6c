// What a SentencePiece .model file says of its tokens, for writing the same tokenizer in another
// form. The file is a protobuf message; its few fields are read here, because SentencePiece's
// headers do not offer them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace evermoe {

struct SentencePiece {
  // Numbers as in the file.
  enum class Kind {
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,
    kUserDefined = 4,
    kUnused = 5,
    kByte = 6
  };
  std::string text;
  float score = 0;
  Kind kind = Kind::kNormal;
};

struct SentencePieceSpec {
  enum class Algorithm { kUnigram = 1, kBpe = 2, kWord = 3, kChar = 4 };
  Algorithm algorithm = Algorithm::kUnigram;
  std::vector<SentencePiece> pieces;   // by token
  bool has_byte_fallback = false;      // bytes stand for characters without a piece
  bool ends_words_with_space = false;  // instead of beginning them with it
  // What is done to a line first.
  bool rewrites_characters = false;  // such as NFKC
  bool adds_dummy_prefix = true;     // a space in front
  bool removes_extra_spaces = true;  // at both ends, and all but one of several
  bool escapes_spaces = true;        // as U+2581
};

// Corrupt where the bytes are not such a message.
absl::StatusOr<SentencePieceSpec> parse_sentencepiece_spec(const std::string& bytes);

}  // namespace evermoe
