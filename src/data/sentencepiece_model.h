// SentencePiece behind a wall: its headers declare an absl::string_view of their own, so they and
// abseil's must not meet in one translation unit. Hence no absl::Status here: an `error` that is
// not empty is one line that says what failed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace evermoe {

class SentencePieceModel {
 public:
  // From the bytes of a .model file; null with an error if they are not one.
  static std::unique_ptr<SentencePieceModel> parse(const std::string& bytes, std::string& error);
  virtual ~SentencePieceModel() = default;

  virtual int64_t vocabulary() const = 0;
  // The token that stands for a piece of text such as "<0x0A>".
  virtual std::optional<int32_t> token_of(const std::string& piece) const = 0;
  // The end-of-sentence token, if the model has one.
  virtual std::optional<int32_t> end_of_sentence() const = 0;
  // A text without newlines.
  virtual std::vector<int32_t> encode(const std::string& text, std::string& error) const = 0;
  virtual std::string decode(const std::vector<int32_t>& tokens, std::string& error) const = 0;
};

// Bytes of a .model file, trained on the lines that `next_line` gives until it returns nothing.
std::string train_sentencepiece_model(const std::function<std::optional<std::string>()>& next_line,
                                      int64_t vocabulary, std::string& error);

}  // namespace evermoe
