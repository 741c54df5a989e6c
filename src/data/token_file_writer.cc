#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "data/temporary_files.h"
#include "data/token_file.h"
#include "env/files.h"

namespace evermoe {
namespace {

int64_t bytes_per_token(int64_t vocabulary) {
  return vocabulary <= 1 << 8 ? 1 : vocabulary <= 1 << 16 ? 2 : 4;
}

class Writer : public TokenFileWriter {
 public:
  Writer(std::string path, std::string temporary, std::unique_ptr<WritableFile> file,
         int64_t vocabulary)
      : path_(std::move(path)), temporary_(std::move(temporary)), file_(std::move(file)) {
    header_.bytes_per_token = bytes_per_token(vocabulary);
    header_.vocabulary = vocabulary;
  }

  ~Writer() override {
    if (!finished_) real_files().remove_file(temporary_).IgnoreError();
  }

  absl::Status append(std::span<const int32_t> tokens) override {
    std::string bytes;
    bytes.reserve(tokens.size() * static_cast<size_t>(header_.bytes_per_token));
    for (const int32_t token : tokens) {
      if (token < 0 || token >= header_.vocabulary) {
        return InvalidInput(
            absl::StrCat(path_, ": token ", token, ", allowed: 0 to ", header_.vocabulary - 1));
      }
      for (int64_t i = 0; i < header_.bytes_per_token; ++i) {
        bytes += static_cast<char>(token >> (8 * i) & 0xff);
      }
    }
    contents_.update(bytes);
    header_.tokens += std::ssize(tokens);
    return file_->append(std::as_bytes(std::span(bytes)));
  }

  absl::Status finish() override {
    header_.contents = contents_.finish();
    const std::string header = encode_token_file_header(header_);
    RETURN_IF_ERROR(file_->write_at(0, std::as_bytes(std::span(header))));
    RETURN_IF_ERROR(file_->sync());
    RETURN_IF_ERROR(file_->close());
    RETURN_IF_ERROR(real_files().rename(temporary_, path_));
    finished_ = true;
    return real_files().sync_directory(parent_directory(path_));
  }

 private:
  const std::string path_;
  const std::string temporary_;
  const std::unique_ptr<WritableFile> file_;
  TokenFileHeader header_;
  FingerprintStream contents_;
  bool finished_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TokenFileWriter>> TokenFileWriter::create(const std::string& path,
                                                                         int64_t vocabulary) {
  if (vocabulary < 1 || vocabulary > kTokenVocabularyMax) {
    return InvalidInput(
        absl::StrCat(path, ": vocabulary ", vocabulary, ", allowed: 1 to ", kTokenVocabularyMax));
  }
  const std::string temporary = temporary_name(path);
  ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, real_files().create(temporary, {}));
  // Room for the header, which is known last.
  const std::string blank(static_cast<size_t>(kTokenFileHeaderBytes), '\0');
  RETURN_IF_ERROR(file->append(std::as_bytes(std::span(blank))));
  return std::make_unique<Writer>(path, temporary, std::move(file), vocabulary);
}

absl::Status write_token_file(const std::string& path, int64_t vocabulary,
                              std::span<const int32_t> tokens) {
  ASSIGN_OR_RETURN(const std::unique_ptr<TokenFileWriter> writer,
                   TokenFileWriter::create(path, vocabulary));
  RETURN_IF_ERROR(writer->append(tokens));
  return writer->finish();
}

}  // namespace evermoe
