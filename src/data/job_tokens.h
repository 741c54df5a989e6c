// The tokens of a job, prepared once: hashed and tokenized when the job begins, mapped by every
// process that comes later.
//
// Reading a corpus costs about a second per gigabyte, which a worker that takes over from a lost
// one must not spend. So what was found is kept in CACHE/tokens.json: which files were read, how
// the file system told them apart (size, inode, times), and the fingerprint of their tokens.
// Whoever finds the files as they are written there need not read them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fingerprint.h"
#include "data/token_source.h"
#include "env/files.h"

namespace evermoe {

// A file as it was found. The path alone where nothing is to be compared ("bytes").
struct KnownFile {
  std::string path;
  FileIdentity identity;
  friend bool operator==(const KnownFile&, const KnownFile&) = default;
};

// One source of tokens and what was made of it.
struct PreparedTokens {
  KnownFile source;     // a text or a token file
  KnownFile tokenizer;  // a model, or "bytes"; empty where the source is a token file
  KnownFile tokens;     // the token file
  Fingerprint contents;
  friend bool operator==(const PreparedTokens&, const PreparedTokens&) = default;
};

// CACHE/tokens.json: the training text, then the validation text if it is one of its own.
using TokenRecord = std::vector<PreparedTokens>;
inline constexpr int64_t kTokenRecordBytesMax = 1 << 20;

std::string token_record_text(const TokenRecord& record);
// Corrupt says what is wrong with the text.
absl::StatusOr<TokenRecord> parse_token_record(const std::string& text);

// When a job begins or begins again, before its workers: prepares what is new or has changed, and
// rewrites the record. Codes of prepare_tokens().
absl::Status prepare_job_tokens(const TokenSource& source, const std::string& cache_directory);

// When another host takes over a job whose workers may live: they have begun with the tokens of the
// record, so it stays what it is, whatever the files hold by now. Where there is none, as above.
absl::Status keep_job_tokens(const TokenSource& source, const std::string& cache_directory);

// In a worker: maps what the record names. Prepares it first where there is no record, as for
// workers that a launcher started. Where a file has changed since, its tokens are made and
// compared: InvalidInput if they are not the tokens that the job began with.
absl::StatusOr<TokenParts> open_job_tokens(const TokenSource& source,
                                           const std::string& cache_directory);

}  // namespace evermoe
