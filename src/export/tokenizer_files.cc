#include "export/tokenizer_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "data/sentencepiece_spec.h"
#include "data/tokenizer.h"
#include "env/files.h"

namespace evermoe {
namespace {

using Json = nlohmann::ordered_json;
using Kind = SentencePiece::Kind;

constexpr int64_t kModelBytesMax = 256 << 20;
constexpr char kSpaceMark[] = "\u2581";

Json replace(Json pattern, const char* content) {
  return {{"type", "Replace"}, {"pattern", std::move(pattern)}, {"content", content}};
}
Json text_pattern(const std::string& text) { return {{"String", text}}; }
Json regex(const std::string& pattern) { return {{"Regex", pattern}}; }

Json sequence(const char* of, Json parts) { return {{"type", "Sequence"}, {of, std::move(parts)}}; }

Json tokenizer_json(Json normalizer, Json pre_tokenizer, Json decoder, Json model) {
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", Json::array()},
          {"normalizer", std::move(normalizer)},
          {"pre_tokenizer", std::move(pre_tokenizer)},
          {"post_processor", nullptr},
          {"decoder", std::move(decoder)},
          {"model", std::move(model)}};
}

// ---- bytes: pairs that are never merged

std::string utf8(int code) {
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

// Byte-level tokenizers write every byte as a visible character: itself, or the next one from
// U+0100 on.
Json byte_vocabulary() {
  Json vocabulary = Json::object();
  int next = 0x100;
  for (int byte = 0; byte < kByteVocabulary; ++byte) {
    const bool visible = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
    vocabulary[utf8(visible ? byte : next++)] = byte;
  }
  return vocabulary;
}

Json byte_tokenizer_json() {
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", false}};
  return tokenizer_json(nullptr, byte_level, byte_level,
                        {{"type", "BPE"}, {"vocab", byte_vocabulary()}, {"merges", Json::array()}});
}

// ---- SentencePiece

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (std::string("\\^$.|?*+()[]{}-").find(c) != std::string::npos) result += '\\';
    result += c;
  }
  return result;
}

size_t first_character_bytes(const std::string& utf8) {
  size_t bytes = 1;
  while (bytes < utf8.size() && (static_cast<unsigned char>(utf8[bytes]) & 0xc0) == 0x80) ++bytes;
  return bytes;
}

// Cuts the text so that no token crosses the cuts: around newlines, because the model sees single
// lines, and behind the first character of whatever reads like the name of a piece that text never
// becomes.
std::string cuts(const SentencePieceSpec& spec) {
  std::string pattern = "\n";
  if (spec.has_byte_fallback) pattern += "|<(?=0x[0-9A-F]{2}>)";
  for (const SentencePiece& piece : spec.pieces) {
    const bool is_text = piece.kind == Kind::kNormal || piece.kind == Kind::kByte;
    if (is_text || first_character_bytes(piece.text) == piece.text.size()) continue;
    const size_t first = first_character_bytes(piece.text);
    absl::StrAppend(&pattern, "|", escaped(piece.text.substr(0, first)),
                    "(?=", escaped(piece.text.substr(first)), ")");
  }
  return pattern;
}

// What SentencePiece does to a line before it looks for pieces, for all lines of a text.
Json line_normalizer(const SentencePieceSpec& spec) {
  Json parts = Json::array();
  if (spec.removes_extra_spaces) {
    parts.push_back(replace(regex("(?<![^\n]) +| +(?![^\n])"), ""));
    parts.push_back(replace(regex(" {2,}"), " "));
  }
  if (spec.adds_dummy_prefix) parts.push_back(replace(regex("(?<![^\n])(?=[^\n])"), " "));
  parts.push_back(replace(text_pattern(" "), kSpaceMark));
  return sequence("normalizers", std::move(parts));
}

Json line_decoder(const SentencePieceSpec& spec) {
  Json parts = Json::array();
  parts.push_back(replace(text_pattern(kSpaceMark), " "));
  parts.push_back({{"type", "ByteFallback"}});
  parts.push_back({{"type", "Fuse"}});
  if (spec.adds_dummy_prefix) parts.push_back(replace(regex("(?<![^\n]) "), ""));
  return sequence("decoders", std::move(parts));
}

Json sentencepiece_json(const SentencePieceSpec& spec) {
  Json vocabulary = Json::array();
  int64_t unknown = 0;
  for (const SentencePiece& piece : spec.pieces) {
    if (piece.kind == Kind::kUnknown) unknown = std::ssize(vocabulary);
    vocabulary.push_back({piece.text, piece.score});
  }
  const Json split = {{"type", "Split"},
                      {"pattern", regex(cuts(spec))},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  return tokenizer_json(line_normalizer(spec), split, line_decoder(spec),
                        {{"type", "Unigram"},
                         {"unk_id", unknown},
                         {"vocab", std::move(vocabulary)},
                         {"byte_fallback", spec.has_byte_fallback}});
}

// What of the model the form above cannot express; nullopt if nothing.
std::optional<std::string> misfit(const SentencePieceSpec& spec) {
  const auto has = [&](Kind kind, const std::string& text) {
    return std::any_of(spec.pieces.begin(), spec.pieces.end(), [&](const SentencePiece& piece) {
      return piece.kind == kind && (text.empty() || piece.text == text);
    });
  };
  if (spec.algorithm != SentencePieceSpec::Algorithm::kUnigram) return "it is not a unigram model";
  if (spec.rewrites_characters) return "it rewrites characters (such as NFKC) before it cuts them";
  if (spec.ends_words_with_space || !spec.escapes_spaces) return "it treats spaces in another way";
  if (has(Kind::kUserDefined, "")) return "it has symbols that its user defined";
  if (!has(Kind::kNormal, "\n") && !has(Kind::kByte, "<0x0A>"))
    return "it has no token of its own for a newline";
  return std::nullopt;
}

std::string config_text(const ModelShape& shape) {
  // Nothing is added to a text, and nothing of it is taken away.
  const Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                       {"model_max_length", shape.sequence_length},
                       {"clean_up_tokenization_spaces", false},
                       {"model_input_names", {"input_ids", "attention_mask"}}};
  return config.dump(2) + "\n";
}

absl::Status check_vocabulary(const std::string& tokenizer, int64_t vocabulary,
                              const ModelShape& shape) {
  if (vocabulary <= shape.vocabulary) return absl::OkStatus();
  return InvalidInput(absl::StrCat(tokenizer, ": found ", vocabulary,
                                   " tokens, allowed: at most the model's vocabulary (",
                                   shape.vocabulary, "): it is another tokenizer than the job's"));
}

}  // namespace

absl::StatusOr<TokenizerFiles> tokenizer_files(const std::string& tokenizer,
                                               const ModelShape& shape) {
  const absl::StatusOr<std::unique_ptr<Tokenizer>> opened = Tokenizer::open(tokenizer);
  if (absl::IsNotFound(opened.status())) {
    return InvalidInput(
        absl::StrCat(tokenizer,
                     ": no such file, allowed: the SentencePiece model that the job's text was "
                     "tokenized with"));
  }
  RETURN_IF_ERROR(opened.status());
  RETURN_IF_ERROR(check_vocabulary(tokenizer, (*opened)->vocabulary(), shape));
  TokenizerFiles result;
  Json json;
  if (tokenizer == "bytes") {
    json = byte_tokenizer_json();
  } else {
    ASSIGN_OR_RETURN(std::string model, read_file(real_files(), tokenizer, kModelBytesMax));
    ASSIGN_OR_RETURN(const SentencePieceSpec spec, parse_sentencepiece_spec(model));
    if (const auto reason = misfit(spec)) {
      result.why_none = absl::StrCat(tokenizer, ": ", *reason);
      return result;
    }
    json = sentencepiece_json(spec);
    result.files.push_back({"tokenizer.model", std::move(model)});
  }
  result.files.push_back({"tokenizer.json", json.dump() + "\n"});
  result.files.push_back({"tokenizer_config.json", config_text(shape)});
  return result;
}

}  // namespace evermoe
