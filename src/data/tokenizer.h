// Tokenizers: text to token numbers and back.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace evermoe {

// Immutable; safe to share between threads.
class Tokenizer {
 public:
  // "bytes", or the path of a SentencePiece model. NotFound if there is no such file, Corrupt if it
  // is not a model.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> open(const std::string& name);
  virtual ~Tokenizer() = default;

  virtual int64_t vocabulary() const = 0;
  // Encoding a text equals encoding its lines one after the other, each with its newline: a text of
  // any size can be encoded in pieces that end with one.
  virtual absl::StatusOr<std::vector<int32_t>> encode(const std::string& text) const = 0;
  // InvalidInput for a token outside the vocabulary. decode(encode(text)) is the text again for
  // bytes and for models of train_sentencepiece(); other models may normalise.
  virtual absl::StatusOr<std::string> decode(std::span<const int32_t> tokens) const = 0;
  // Equal for tokenizers that encode alike: part of the name of cached token files.
  virtual std::string identity() const = 0;
};

inline constexpr int64_t kByteVocabulary = 256;

// Trains a SentencePiece model (unigram, with bytes for rare characters, no normalisation) on a
// text file and writes it to `model_path` atomically. InvalidInput where the text is missing or too
// small for the vocabulary; says what would be allowed. Takes seconds per megabyte.
absl::Status train_sentencepiece(const std::string& text_path, int64_t vocabulary,
                                 const std::string& model_path);

}  // namespace evermoe
