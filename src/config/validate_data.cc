#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "config/config_key.h"
#include "config/validate_config.h"
#include "data/token_source.h"
#include "env/files.h"

namespace evermoe {
namespace {

constexpr char kAllowedSource[] = "an existing text file or token file (.tokens)";

absl::Status check_tokenizer(const DataConfig& data, const KeyPlaces& places) {
  if (data.tokenizer == "bytes" || real_files().exists(data.tokenizer)) return absl::OkStatus();
  return not_allowed(places, "data.tokenizer", quoted(data.tokenizer) + " (no such file)",
                     "bytes, or an existing SentencePiece .model file");
}

absl::StatusOr<SourceFacts> facts_of(const DataConfig& data, const char* key,
                                     const std::string& path, const KeyPlaces& places) {
  if (!real_files().exists(path)) {
    return not_allowed(places, key, quoted(path) + (path.empty() ? "" : " (no such file)"),
                       kAllowedSource);
  }
  absl::StatusOr<SourceFacts> facts = source_facts(path, data.tokenizer);
  if (facts.ok()) return facts;
  return InvalidInput(absl::StrCat(places.of(key), ": ", key, ": ",
                                   std::string(facts.status().message()),
                                   ", allowed: ", kAllowedSource));
}

absl::Status check_vocabulary(const JobConfig& config, const SourceFacts& facts,
                              const std::string& path, const KeyPlaces& places) {
  if (facts.vocabulary <= config.model.vocabulary) return absl::OkStatus();
  return not_allowed(
      places, "model.vocabulary", absl::StrCat(config.model.vocabulary),
      absl::StrCat("at least the vocabulary of ", quoted(path), " (", facts.vocabulary, ")"));
}

// A window has the inputs of one sequence and the target of its last token.
absl::Status check_length(const JobConfig& config, int64_t tokens, const char* key,
                          const KeyPlaces& places) {
  const int64_t least = config.model.sequence_length + 1;
  if (tokens >= least) return absl::OkStatus();
  return not_allowed(places, key, absl::StrCat(tokens, " tokens"),
                     absl::StrCat("at least model.sequence_length + 1 (", least, ")"));
}

}  // namespace

absl::Status validate_data(const JobConfig& config, const KeyPlaces& places) {
  const DataConfig& data = config.data;
  RETURN_IF_ERROR(check_tokenizer(data, places));
  ASSIGN_OR_RETURN(const SourceFacts facts, facts_of(data, "data.path", data.path, places));
  RETURN_IF_ERROR(check_vocabulary(config, facts, data.path, places));
  if (!data.validation_path.empty()) {
    ASSIGN_OR_RETURN(const SourceFacts held_out,
                     facts_of(data, "data.validation_path", data.validation_path, places));
    RETURN_IF_ERROR(check_vocabulary(config, held_out, data.validation_path, places));
    RETURN_IF_ERROR(check_length(config, held_out.tokens_max, "data.validation_path", places));
    return check_length(config, facts.tokens_max, "data.path", places);
  }
  const int64_t held_out = held_out_tokens(facts.tokens_max, data.validation_fraction);
  RETURN_IF_ERROR(check_length(config, facts.tokens_max - held_out, "data.path", places));
  return check_length(config, held_out, "data.validation_fraction", places);
}

}  // namespace evermoe
