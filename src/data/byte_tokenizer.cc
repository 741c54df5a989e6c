#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "data/tokenizer_kinds.h"

namespace evermoe {
namespace {

class ByteTokenizer : public Tokenizer {
 public:
  int64_t vocabulary() const override { return kByteVocabulary; }

  absl::StatusOr<std::vector<int32_t>> encode(const std::string& text) const override {
    std::vector<int32_t> tokens;
    tokens.reserve(text.size());
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }

  absl::StatusOr<std::string> decode(std::span<const int32_t> tokens) const override {
    std::string text;
    for (const int32_t token : tokens) {
      if (token < 0 || token >= kByteVocabulary) {
        return InvalidInput(absl::StrCat("token ", token, ", allowed: 0 to 255"));
      }
      text += static_cast<char>(token);
    }
    return text;
  }

  std::string identity() const override { return "bytes"; }
};

}  // namespace

std::unique_ptr<Tokenizer> byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::open(const std::string& name) {
  if (name == "bytes") return byte_tokenizer();
  return open_sentencepiece(name);
}

}  // namespace evermoe
