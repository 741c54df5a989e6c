#include "data/token_file_fuzz_entry.h"

#include <algorithm>
#include <span>
#include <string>

#include "base/check.h"
#include "data/token_file.h"

namespace evermoe {

void fuzz_token_file(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto header = decode_token_file_header(bytes, std::ssize(bytes));
  if (!header.ok()) return;
  CHECK(kTokenFileHeaderBytes + header->tokens * header->bytes_per_token == std::ssize(bytes));
  CHECK(header->vocabulary >= 1 && header->vocabulary <= kTokenVocabularyMax);
  const std::string again = encode_token_file_header(*header);
  CHECK(std::equal(again.begin(), again.end(), reinterpret_cast<const char*>(data)));
}

}  // namespace evermoe
