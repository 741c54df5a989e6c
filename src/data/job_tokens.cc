#include "data/job_tokens.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/log.h"
#include "data/temporary_files.h"
#include "data/token_file.h"

namespace evermoe {
namespace {

constexpr char kRecordName[] = "tokens.json";

absl::StatusOr<KnownFile> known(const std::string& path) {
  ASSIGN_OR_RETURN(const FileIdentity identity, real_files().identity(path));
  return KnownFile{path, identity};
}

bool is_unchanged(const KnownFile& file) {
  const absl::StatusOr<KnownFile> now = known(file.path);
  return now.ok() && *now == file;
}

// The files that a source is made of, as they are now.
absl::StatusOr<PreparedTokens> look_at(const std::string& path, const std::string& tokenizer) {
  PreparedTokens found;
  ASSIGN_OR_RETURN(found.source, known(path));
  if (is_token_file(path)) return found;
  found.tokenizer.path = tokenizer;
  if (tokenizer == "bytes") return found;
  ASSIGN_OR_RETURN(found.tokenizer, known(tokenizer));
  return found;
}

// Looks before it reads: what changes meanwhile will be seen as changed.
absl::StatusOr<PreparedTokens> prepare(const std::string& path, const std::string& tokenizer,
                                       const std::string& cache_directory) {
  absl::StatusOr<PreparedTokens> prepared = look_at(path, tokenizer);
  ASSIGN_OR_RETURN(const TokenPaths paths, prepare_tokens({path, tokenizer}, cache_directory));
  RETURN_IF_ERROR(prepared.status());
  ASSIGN_OR_RETURN(prepared->tokens, known(paths.training));
  ASSIGN_OR_RETURN(const auto file, TokenFile::open(paths.training));
  prepared->contents = file->contents();
  return prepared;
}

// Whether the source and the tokens made of it are the files that are written down.
bool holds(const PreparedTokens& written, const std::string& path, const std::string& tokenizer) {
  const absl::StatusOr<PreparedTokens> now = look_at(path, tokenizer);
  return now.ok() && now->source == written.source && now->tokenizer == written.tokenizer &&
         is_unchanged(written.tokens);
}

std::vector<std::string> paths_of(const TokenSource& source) {
  if (source.validation_path.empty()) return {source.path};
  return {source.path, source.validation_path};
}

absl::StatusOr<TokenRecord> read_record(const std::string& cache_directory) {
  const std::string path = join_path(cache_directory, kRecordName);
  ASSIGN_OR_RETURN(const std::string text, read_file(real_files(), path, kTokenRecordBytesMax));
  absl::StatusOr<TokenRecord> record = parse_token_record(text);
  if (!record.ok()) return annotate(record.status(), path);
  return record;
}

// Processes that a launcher started may do this at once, so each has a temporary name of its own.
absl::Status write_record(const std::string& cache_directory, const TokenRecord& record) {
  Files& files = real_files();
  const std::string path = join_path(cache_directory, kRecordName);
  const std::string temporary = temporary_name(path);
  RETURN_IF_ERROR(files.create_directories(cache_directory));
  RETURN_IF_ERROR(write_file_synced(files, temporary, token_record_text(record)));
  RETURN_IF_ERROR(files.rename(temporary, path));
  return files.sync_directory(cache_directory);
}

// The record of the source as it is now; takes from `written` what still holds, without reading it.
absl::StatusOr<TokenRecord> refresh(const TokenRecord& written, const TokenSource& source,
                                    const std::string& cache_directory) {
  TokenRecord record;
  for (const std::string& path : paths_of(source)) {
    const size_t i = record.size();
    if (i < written.size() && holds(written[i], path, source.tokenizer)) {
      record.push_back(written[i]);
      continue;
    }
    ASSIGN_OR_RETURN(PreparedTokens prepared, prepare(path, source.tokenizer, cache_directory));
    record.push_back(std::move(prepared));
  }
  return record;
}

absl::Status compare(const TokenRecord& began_with, const TokenRecord& now,
                     const std::string& record_path) {
  for (size_t i = 0; i < now.size(); ++i) {
    const std::string before = i < began_with.size() ? to_hex(began_with[i].contents) : "none";
    if (before == to_hex(now[i].contents)) continue;
    return InvalidInput(absl::StrCat(
        now[i].source.path, ": has changed since the job began: its tokens have fingerprint ",
        to_hex(now[i].contents), ", the job's have ", before,
        "; put the file back, or begin a new job with another --out (the job's data are in ",
        record_path, ")"));
  }
  return absl::OkStatus();
}

// The record if there is a good one; empty if there is none or it is damaged.
TokenRecord record_or_none(const std::string& cache_directory) {
  absl::StatusOr<TokenRecord> record = read_record(cache_directory);
  if (record.ok()) return *std::move(record);
  if (!absl::IsNotFound(record.status()))
    log_warning(absl::StrCat("reading the data again: ", record.status().message()));
  return {};
}

}  // namespace

absl::Status prepare_job_tokens(const TokenSource& source, const std::string& cache_directory) {
  remove_leftovers(real_files(), cache_directory);
  const TokenRecord written = record_or_none(cache_directory);
  ASSIGN_OR_RETURN(const TokenRecord record, refresh(written, source, cache_directory));
  return record == written ? absl::OkStatus() : write_record(cache_directory, record);
}

absl::Status keep_job_tokens(const TokenSource& source, const std::string& cache_directory) {
  if (read_record(cache_directory).ok()) return absl::OkStatus();
  return prepare_job_tokens(source, cache_directory);
}

absl::StatusOr<TokenParts> open_job_tokens(const TokenSource& source,
                                           const std::string& cache_directory) {
  const TokenRecord written = record_or_none(cache_directory);
  ASSIGN_OR_RETURN(const TokenRecord record, refresh(written, source, cache_directory));
  if (record != written) {
    if (!written.empty())
      RETURN_IF_ERROR(compare(written, record, join_path(cache_directory, kRecordName)));
    RETURN_IF_ERROR(write_record(cache_directory, record));
  }
  const TokenPaths paths{.training = record.front().tokens.path,
                         .validation = record.size() > 1 ? record[1].tokens.path : "",
                         .validation_fraction = source.validation_fraction};
  return open_token_parts(paths);
}

}  // namespace evermoe
