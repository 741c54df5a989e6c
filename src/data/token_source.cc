#include "data/token_source.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "data/tokenizer.h"
#include "env/files.h"

namespace evermoe {
namespace {

// Texts are read in pieces of this size, cut after a newline where there is one.
constexpr int64_t kPieceBytes = 1 << 20;

// Calls `use` with pieces that together are the file.
absl::Status for_each_piece(const std::string& path,
                            const std::function<absl::Status(const std::string&)>& use) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, real_files().open(path));
  std::string piece;
  for (int64_t offset = 0; offset < file->size();) {
    piece.resize(static_cast<size_t>(std::min(kPieceBytes, file->size() - offset)));
    RETURN_IF_ERROR(file->read_at(offset, std::as_writable_bytes(std::span(piece))));
    const size_t newline = piece.rfind('\n');
    const bool last = offset + std::ssize(piece) == file->size();
    if (!last && newline != std::string::npos) piece.resize(newline + 1);
    RETURN_IF_ERROR(use(piece));
    offset += std::ssize(piece);
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> tokenize_with(const Tokenizer& tokenizer, const std::string& text_path,
                                      const std::string& token_path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<TokenFileWriter> writer,
                   TokenFileWriter::create(token_path, tokenizer.vocabulary()));
  int64_t count = 0;
  RETURN_IF_ERROR(for_each_piece(text_path, [&](const std::string& piece) -> absl::Status {
    ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, tokenizer.encode(piece));
    count += std::ssize(tokens);
    return writer->append(tokens);
  }));
  RETURN_IF_ERROR(writer->finish());
  return count;
}

absl::StatusOr<std::string> cache_name(const std::string& text_path, const Tokenizer& tokenizer) {
  FingerprintStream stream;
  stream.update(absl::StrCat(tokenizer.identity(), "\n"));
  RETURN_IF_ERROR(for_each_piece(text_path, [&](const std::string& piece) {
    stream.update(piece);
    return absl::OkStatus();
  }));
  return absl::StrCat(base_name(text_path), "-", to_hex(stream.finish()), ".tokens");
}

absl::Status verify_token_file(const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<TokenFile> file, TokenFile::open(path));
  return file->verify();
}

absl::StatusOr<std::string> prepare_text(const std::string& path, const std::string& tokenizer_name,
                                         const std::string& cache_directory) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, Tokenizer::open(tokenizer_name));
  ASSIGN_OR_RETURN(const std::string name, cache_name(path, *tokenizer));
  const std::string cached = join_path(cache_directory, name);
  const absl::Status state = verify_token_file(cached);
  if (state.ok()) return cached;
  if (!absl::IsNotFound(state)) {
    log_warning(absl::StrCat("tokenizing again: ", std::string(state.message())));
  }
  RETURN_IF_ERROR(real_files().create_directories(cache_directory));
  RETURN_IF_ERROR(tokenize_with(*tokenizer, path, cached).status());
  return cached;
}

absl::StatusOr<std::string> prepare_one(const std::string& path, const std::string& tokenizer,
                                        const std::string& cache_directory) {
  // Says clearly what is wrong with a missing file, a folder or a header.
  const absl::Status facts = source_facts(path, tokenizer).status();
  if (absl::IsNotFound(facts)) return InvalidInput(std::string(facts.message()));
  RETURN_IF_ERROR(facts);
  if (!is_token_file(path)) return prepare_text(path, tokenizer, cache_directory);
  RETURN_IF_ERROR(verify_token_file(path));
  return path;
}

TokenPart whole(std::shared_ptr<const TokenFile> file) {
  const int64_t size = file->size();
  return {std::move(file), 0, size};
}

}  // namespace

bool is_token_file(const std::string& path) { return path.ends_with(".tokens"); }

absl::StatusOr<SourceFacts> source_facts(const std::string& path, const std::string& tokenizer) {
  Files& files = real_files();
  if (files.is_directory(path)) return InvalidInput(absl::StrCat(path, ": is a folder"));
  if (is_token_file(path)) {
    ASSIGN_OR_RETURN(const std::unique_ptr<TokenFile> file, TokenFile::open(path));
    return SourceFacts{file->size(), file->vocabulary()};
  }
  ASSIGN_OR_RETURN(const int64_t bytes, files.file_size(path));
  ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> opened, Tokenizer::open(tokenizer));
  return SourceFacts{bytes, opened->vocabulary()};
}

absl::StatusOr<TokenPaths> prepare_tokens(const TokenSource& source,
                                          const std::string& cache_directory) {
  TokenPaths paths;
  paths.validation_fraction = source.validation_fraction;
  ASSIGN_OR_RETURN(paths.training, prepare_one(source.path, source.tokenizer, cache_directory));
  if (source.validation_path.empty()) return paths;
  ASSIGN_OR_RETURN(paths.validation,
                   prepare_one(source.validation_path, source.tokenizer, cache_directory));
  return paths;
}

absl::StatusOr<int64_t> tokenize_file(const std::string& text_path, const std::string& tokenizer,
                                      const std::string& token_path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> opened, Tokenizer::open(tokenizer));
  return tokenize_with(*opened, text_path, token_path);
}

void TokenPart::read(int64_t first, std::span<int64_t> into) const {
  CHECK(0 <= first && first <= size() && std::ssize(into) <= size() - first)
      << "first=" << first << " count=" << into.size() << " size=" << size();
  file->read(begin + first, into);
}

absl::StatusOr<TokenParts> open_token_parts(const TokenPaths& paths) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const TokenFile> file, TokenFile::open(paths.training));
  TokenParts parts{whole(file), {}};
  if (!paths.validation.empty()) {
    ASSIGN_OR_RETURN(std::shared_ptr<const TokenFile> other, TokenFile::open(paths.validation));
    parts.validation = whole(std::move(other));
    return parts;
  }
  const int64_t held_out = held_out_tokens(file->size(), paths.validation_fraction);
  parts.training.end -= held_out;
  parts.validation = {file, parts.training.end, file->size()};
  return parts;
}

int64_t held_out_tokens(int64_t tokens, double validation_fraction) {
  return static_cast<int64_t>(static_cast<double>(tokens) * validation_fraction);
}

}  // namespace evermoe
