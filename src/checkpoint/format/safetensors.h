// The safetensors file format: an 8-byte length, a JSON header of that length, then the tensors'
// bytes without gaps. https://github.com/huggingface/safetensors
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "env/files.h"

namespace evermoe {

// The format's own limit for the JSON header.
inline constexpr int64_t kSafetensorsHeaderBytesMax = 100'000'000;

struct SafetensorsTensor {
  std::string name;
  std::string dtype;  // "F32", "BF16", ...
  std::vector<int64_t> shape;
  int64_t begin = 0;  // bytes, from the end of the header
  int64_t end = 0;
  friend bool operator==(const SafetensorsTensor&, const SafetensorsTensor&) = default;
};

struct SafetensorsHeader {
  int64_t header_bytes = 0;                // length field, JSON and padding: where the data begins
  std::vector<SafetensorsTensor> tensors;  // by begin
  std::map<std::string, std::string> metadata;
};

// Bytes of one element; 0 for a type the format does not know.
int64_t safetensors_element_bytes(const std::string& dtype);

// Length field and JSON, padded with spaces to a multiple of `alignment` bytes. Sets begin and end
// of the tensors, one after the other in the order given. InvalidInput for names that are not UTF-8
// or a header beyond the limit. REQUIRES: known dtypes, shapes without negative numbers.
absl::StatusOr<std::string> make_safetensors_header(
    std::vector<SafetensorsTensor>& tensors, const std::map<std::string, std::string>& metadata,
    int64_t alignment);

// Strict: sizes must follow from type and shape, the tensors must fill a file of `file_bytes`
// without gaps and overlaps. `beginning` holds at least the header. Corrupt errors begin with
// `name`.
absl::StatusOr<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> beginning,
                                                           int64_t file_bytes,
                                                           const std::string& name);

// Reads the header of an open file.
absl::StatusOr<SafetensorsHeader> read_safetensors_header(ReadableFile& file,
                                                          const std::string& name);

}  // namespace evermoe
