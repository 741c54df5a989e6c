#include "data/token_file.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "env/files.h"

namespace evermoe {
namespace {

// The last character is the version.
constexpr char kMagic[] = "EVERTOK1";
constexpr size_t kMagicBytes = 8;
constexpr size_t kUsedHeaderBytes = 40;

uint64_t load(std::span<const std::byte> bytes, size_t offset, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i)
    value |= std::to_integer<uint64_t>(bytes[offset + i]) << (8 * i);
  return value;
}

void store(std::string& bytes, uint64_t value, size_t size) {
  for (size_t i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
}

absl::Status check_magic(std::span<const std::byte> bytes) {
  if (std::memcmp(bytes.data(), kMagic, kMagicBytes - 1) != 0) return Corrupt("not a token file");
  if (std::memcmp(bytes.data(), kMagic, kMagicBytes) != 0) {
    const auto version = std::to_integer<unsigned>(bytes[kMagicBytes - 1]);
    return Corrupt(absl::StrCat("format version byte ", version, ", this build reads ",
                                unsigned{kMagic[kMagicBytes - 1]}, " ('1')"));
  }
  return absl::OkStatus();
}

absl::Status check_fields(uint64_t bytes_per_token, uint64_t vocabulary, uint64_t tokens) {
  if (bytes_per_token != 1 && bytes_per_token != 2 && bytes_per_token != 4) {
    return Corrupt(absl::StrCat(bytes_per_token, " bytes per token, allowed: 1, 2, 4"));
  }
  const uint64_t vocabulary_max =
      std::min(uint64_t{1} << (8 * bytes_per_token), static_cast<uint64_t>(kTokenVocabularyMax));
  if (vocabulary < 1 || vocabulary > vocabulary_max) {
    return Corrupt(absl::StrCat("vocabulary ", vocabulary, ", allowed: 1 to ", vocabulary_max,
                                " with ", bytes_per_token, " bytes per token"));
  }
  if (tokens > static_cast<uint64_t>(kTokensMax)) {
    return Corrupt(absl::StrCat(tokens, " tokens, allowed: at most ", kTokensMax));
  }
  return absl::OkStatus();
}

template <typename Unit>
void widen(std::span<const std::byte> from, std::span<int64_t> into) {
  for (size_t i = 0; i < into.size(); ++i) {
    Unit token;
    std::memcpy(&token, from.data() + i * sizeof(Unit), sizeof(Unit));
    into[i] = static_cast<int64_t>(token);
  }
}

class MappedTokenFile : public TokenFile {
 public:
  MappedTokenFile(std::string path, std::unique_ptr<MappedFile> map, TokenFileHeader header)
      : path_(std::move(path)), map_(std::move(map)), header_(header) {}

  int64_t size() const override { return header_.tokens; }
  int64_t vocabulary() const override { return header_.vocabulary; }
  Fingerprint contents() const override { return header_.contents; }

  absl::Status verify() const override {
    if (fingerprint(map_->bytes().subspan(kTokenFileHeaderBytes)) != header_.contents) {
      return Corrupt(absl::StrCat(path_, ": tokens do not have the fingerprint in the header"));
    }
    int64_t chunk[4096];
    for (int64_t begin = 0; begin < size(); begin += std::ssize(chunk)) {
      const int64_t count = std::min<int64_t>(std::ssize(chunk), size() - begin);
      read(begin, std::span(chunk, static_cast<size_t>(count)));
      for (int64_t i = 0; i < count; ++i) {
        if (chunk[i] < vocabulary()) continue;
        return Corrupt(absl::StrCat(path_, ": token ", begin + i, " is ", chunk[i],
                                    ", the vocabulary has ", vocabulary()));
      }
    }
    return absl::OkStatus();
  }

  void read(int64_t begin, std::span<int64_t> into) const override {
    CHECK(0 <= begin && begin <= size() && std::ssize(into) <= size() - begin)
        << path_ << " begin=" << begin << " count=" << into.size() << " size=" << size();
    const auto from = map_->bytes().subspan(
        static_cast<size_t>(kTokenFileHeaderBytes + begin * header_.bytes_per_token));
    switch (header_.bytes_per_token) {
      case 1: return widen<uint8_t>(from, into);
      case 2: return widen<uint16_t>(from, into);
      default: return widen<uint32_t>(from, into);
    }
  }

 private:
  const std::string path_;
  const std::unique_ptr<MappedFile> map_;
  const TokenFileHeader header_;
};

}  // namespace

std::string encode_token_file_header(const TokenFileHeader& header) {
  std::string bytes(kMagic, kMagicBytes);
  store(bytes, static_cast<uint64_t>(header.bytes_per_token), 4);
  store(bytes, static_cast<uint64_t>(header.vocabulary), 4);
  store(bytes, static_cast<uint64_t>(header.tokens), 8);
  store(bytes, header.contents.high, 8);
  store(bytes, header.contents.low, 8);
  bytes.resize(kTokenFileHeaderBytes, '\0');
  return bytes;
}

absl::StatusOr<TokenFileHeader> decode_token_file_header(std::span<const std::byte> bytes,
                                                         int64_t file_bytes) {
  if (std::ssize(bytes) < kTokenFileHeaderBytes) {
    return Corrupt(
        absl::StrCat("has ", bytes.size(), " bytes, a header has ", kTokenFileHeaderBytes));
  }
  RETURN_IF_ERROR(check_magic(bytes));
  const uint64_t bytes_per_token = load(bytes, 8, 4);
  const uint64_t vocabulary = load(bytes, 12, 4);
  const uint64_t tokens = load(bytes, 16, 8);
  RETURN_IF_ERROR(check_fields(bytes_per_token, vocabulary, tokens));
  for (size_t i = kUsedHeaderBytes; i < static_cast<size_t>(kTokenFileHeaderBytes); ++i) {
    if (bytes[i] != std::byte{0}) return Corrupt("padding of the header is not zero");
  }
  const auto expected = static_cast<int64_t>(kTokenFileHeaderBytes + tokens * bytes_per_token);
  if (file_bytes != expected) {
    return Corrupt(absl::StrCat("has ", file_bytes, " bytes, its header promises ", expected));
  }
  return TokenFileHeader{static_cast<int64_t>(bytes_per_token),
                         static_cast<int64_t>(vocabulary),
                         static_cast<int64_t>(tokens),
                         {load(bytes, 24, 8), load(bytes, 32, 8)}};
}

absl::StatusOr<std::unique_ptr<TokenFile>> TokenFile::open(const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> map, real_files().map(path));
  const std::span<const std::byte> bytes = map->bytes();
  const absl::StatusOr<TokenFileHeader> header = decode_token_file_header(bytes, std::ssize(bytes));
  if (!header.ok()) return annotate(header.status(), path);
  return std::make_unique<MappedTokenFile>(path, std::move(map), *header);
}

}  // namespace evermoe
