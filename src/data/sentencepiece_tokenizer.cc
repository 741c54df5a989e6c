#include <algorithm>
#include <fstream>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/fingerprint.h"
#include "data/sentencepiece_model.h"
#include "data/tokenizer_kinds.h"
#include "env/files.h"

namespace evermoe {
namespace {

constexpr int64_t kModelBytesMax = 256 << 20;

// The token for a newline. Models see single lines, so many have no piece for it; then its byte
// stands for it, and in models without byte pieces the end of the sentence does.
std::optional<int32_t> newline_token(const SentencePieceModel& model) {
  if (const auto token = model.token_of("\n")) return token;
  if (const auto token = model.token_of("<0x0A>")) return token;
  return model.end_of_sentence();
}

class SentencePieceTokenizer : public Tokenizer {
 public:
  SentencePieceTokenizer(std::unique_ptr<SentencePieceModel> model, int32_t newline,
                         std::string identity)
      : model_(std::move(model)), newline_(newline), identity_(std::move(identity)) {}

  int64_t vocabulary() const override { return model_->vocabulary(); }
  std::string identity() const override { return identity_; }

  absl::StatusOr<std::vector<int32_t>> encode(const std::string& text) const override {
    std::vector<int32_t> tokens;
    std::string error;
    for (size_t begin = 0; begin < text.size();) {
      const size_t newline = text.find('\n', begin);
      const size_t end = std::min(newline, text.size());
      const std::vector<int32_t> line = model_->encode(text.substr(begin, end - begin), error);
      if (!error.empty()) return Internal(absl::StrCat("SentencePiece: ", error));
      tokens.insert(tokens.end(), line.begin(), line.end());
      if (newline != std::string::npos) tokens.push_back(newline_);
      begin = end + 1;
    }
    return tokens;
  }

  absl::StatusOr<std::string> decode(std::span<const int32_t> tokens) const override {
    std::string text;
    std::vector<int32_t> line;
    for (const int32_t token : tokens) {
      if (token < 0 || token >= vocabulary()) {
        return InvalidInput(absl::StrCat("token ", token, ", allowed: 0 to ", vocabulary() - 1));
      }
      if (token != newline_) {
        line.push_back(token);
        continue;
      }
      RETURN_IF_ERROR(append_line(line, text));
      text += '\n';
    }
    RETURN_IF_ERROR(append_line(line, text));
    return text;
  }

 private:
  absl::Status append_line(std::vector<int32_t>& line, std::string& text) const {
    std::string error;
    text += model_->decode(line, error);
    line.clear();
    if (!error.empty()) return Internal(absl::StrCat("SentencePiece: ", error));
    return absl::OkStatus();
  }

  const std::unique_ptr<SentencePieceModel> model_;
  const int32_t newline_;
  const std::string identity_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> open_sentencepiece(const std::string& model_path) {
  ASSIGN_OR_RETURN(const std::string bytes, read_file(real_files(), model_path, kModelBytesMax));
  std::string error;
  std::unique_ptr<SentencePieceModel> model = SentencePieceModel::parse(bytes, error);
  if (model == nullptr) {
    return Corrupt(absl::StrCat(model_path, ": not a SentencePiece model: ", error));
  }
  const std::optional<int32_t> newline = newline_token(*model);
  if (!newline) {
    return Corrupt(absl::StrCat(model_path, ": has no token that can stand for a newline"));
  }
  const Fingerprint contents = fingerprint(std::as_bytes(std::span(bytes)));
  return std::make_unique<SentencePieceTokenizer>(std::move(model), *newline,
                                                  absl::StrCat("sentencepiece-", to_hex(contents)));
}

absl::Status train_sentencepiece(const std::string& text_path, int64_t vocabulary,
                                 const std::string& model_path) {
  std::ifstream text(text_path);
  if (!text || real_files().is_directory(text_path)) {
    return InvalidInput(absl::StrCat(text_path, ": cannot be read, allowed: a text file"));
  }
  std::string error;
  const auto next_line = [&]() -> std::optional<std::string> {
    std::string line;
    // SentencePiece takes empty sentences for an error of the caller.
    while (std::getline(text, line)) {
      if (!line.empty()) return line;
    }
    return std::nullopt;
  };
  const std::string bytes = train_sentencepiece_model(next_line, vocabulary, error);
  if (!error.empty()) {
    return InvalidInput(absl::StrCat(text_path, ": no vocabulary of ", vocabulary, ": ", error));
  }
  return replace_file(real_files(), model_path, bytes);
}

}  // namespace evermoe
