#include "checkpoint/format/safetensors.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "checkpoint/format/json_fields.h"

namespace evermoe {
namespace {

using nlohmann::json;

constexpr char kMetadataKey[] = "__metadata__";
constexpr int64_t kLengthBytes = 8;
constexpr int kHeaderDepthMax = 4;
constexpr size_t kDimensionsMax = 16;

struct StoredType {
  const char* name;
  int64_t bytes;
};
constexpr StoredType kStoredTypes[] = {{"BOOL", 1},    {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1},
                                       {"F8_E4M3", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2},
                                       {"BF16", 2},    {"I32", 4}, {"U32", 4}, {"F32", 4},
                                       {"F64", 8},     {"I64", 8}, {"U64", 8}};

uint64_t read_length(std::span<const std::byte> bytes) {
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i)
    length = length << 8 | static_cast<uint8_t>(bytes[static_cast<size_t>(i)]);
  return length;
}

void write_length(uint64_t length, std::string& text) {
  for (int i = 0; i < 8; ++i) text[static_cast<size_t>(i)] = static_cast<char>(length >> (8 * i));
}

// Product of the shape and the element size; -1 if it overflows.
int64_t byte_count(const SafetensorsTensor& tensor) {
  int64_t total = safetensors_element_bytes(tensor.dtype);
  for (int64_t extent : tensor.shape) {
    if (__builtin_mul_overflow(total, extent, &total)) return -1;
  }
  return total;
}

absl::StatusOr<SafetensorsTensor> read_tensor(const std::string& key, const json& entry,
                                              int64_t data_bytes, const std::string& name) {
  JsonFields fields(entry, absl::StrCat(name, ": tensor ", key));
  SafetensorsTensor tensor;
  tensor.name = key;
  tensor.dtype = fields.text("dtype", 16);
  if (safetensors_element_bytes(tensor.dtype) == 0) {
    fields.problem(absl::StrCat("has an unknown type \"", tensor.dtype, "\""));
  }
  const json& shape = fields.array("shape");
  if (shape.size() > kDimensionsMax) fields.problem("has too many dimensions");
  const auto natural = [](const json& value) {
    return value.is_number_unsigned() && value.get<uint64_t>() <= uint64_t{INT64_MAX};
  };
  for (const json& extent : shape) {
    if (!natural(extent))
      fields.problem("has a shape that is no list of natural numbers");
    else
      tensor.shape.push_back(extent.get<int64_t>());
  }
  const json& offsets = fields.array("data_offsets");
  if (offsets.size() != 2 || !natural(offsets[0]) || !natural(offsets[1])) {
    fields.problem("has no pair of data offsets");
    return fields.status();
  }
  RETURN_IF_ERROR(fields.status());
  tensor.begin = offsets[0].get<int64_t>();
  tensor.end = offsets[1].get<int64_t>();
  if (tensor.begin > tensor.end || tensor.end > data_bytes)
    fields.problem("lies outside the file");
  else if (tensor.end - tensor.begin != byte_count(tensor)) {
    fields.problem("has a size that does not follow from its type and shape");
  }
  RETURN_IF_ERROR(fields.status());
  return tensor;
}

absl::Status read_metadata(const json& entry, const std::string& name,
                           std::map<std::string, std::string>& metadata) {
  if (!entry.is_object())
    return Corrupt(absl::StrCat(name, ": ", kMetadataKey, " is not an object"));
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) {
      return Corrupt(absl::StrCat(name, ": ", kMetadataKey, " \"", key, "\" is not a text"));
    }
    metadata[key] = value.get<std::string>();
  }
  return absl::OkStatus();
}

absl::Status check_without_gaps(const SafetensorsHeader& header, int64_t data_bytes,
                                const std::string& name) {
  int64_t end = 0;
  for (const SafetensorsTensor& tensor : header.tensors) {
    if (tensor.begin != end) {
      return Corrupt(absl::StrCat(name, ": tensor ", tensor.name, " begins at ", tensor.begin,
                                  ", the one before it ends at ", end));
    }
    end = tensor.end;
  }
  if (end == data_bytes) return absl::OkStatus();
  return Corrupt(
      absl::StrCat(name, ": has ", data_bytes, " bytes of data, its tensors have ", end));
}

// Length of the JSON, checked against the file and the limit.
absl::StatusOr<int64_t> checked_length(std::span<const std::byte> beginning, int64_t file_bytes,
                                       const std::string& name) {
  if (file_bytes < kLengthBytes || beginning.size() < static_cast<size_t>(kLengthBytes)) {
    return Corrupt(
        absl::StrCat(name, ": ", file_bytes, " bytes are too few for a safetensors file"));
  }
  const uint64_t length = read_length(beginning);
  if (length > static_cast<uint64_t>(kSafetensorsHeaderBytesMax) ||
      static_cast<int64_t>(length) > file_bytes - kLengthBytes) {
    return Corrupt(absl::StrCat(name, ": a header of ", length, " bytes does not fit"));
  }
  return static_cast<int64_t>(length);
}

}  // namespace

int64_t safetensors_element_bytes(const std::string& dtype) {
  for (const StoredType& row : kStoredTypes) {
    if (dtype == row.name) return row.bytes;
  }
  return 0;
}

absl::StatusOr<std::string> make_safetensors_header(
    std::vector<SafetensorsTensor>& tensors, const std::map<std::string, std::string>& metadata,
    int64_t alignment) {
  json document = json::object();
  if (!metadata.empty()) document[kMetadataKey] = metadata;
  int64_t offset = 0;
  for (SafetensorsTensor& tensor : tensors) {
    const int64_t bytes = byte_count(tensor);
    CHECK(bytes >= 0 && safetensors_element_bytes(tensor.dtype) > 0) << tensor.name;
    tensor.begin = offset;
    tensor.end = offset += bytes;
    document[tensor.name] = {{"dtype", tensor.dtype},
                             {"shape", tensor.shape},
                             {"data_offsets", {tensor.begin, tensor.end}}};
  }
  std::string text(kLengthBytes, '\0');
  try {
    text += document.dump();
  } catch (const json::exception& error) {  // the library's way to refuse bytes that are not UTF-8
    return InvalidInput(absl::StrCat("a tensor's name is not UTF-8: ", error.what()));
  }
  const size_t unit = static_cast<size_t>(alignment);
  text.resize((text.size() + unit - 1) / unit * unit, ' ');
  if (static_cast<int64_t>(text.size()) - kLengthBytes > kSafetensorsHeaderBytesMax) {
    return InvalidInput(
        absl::StrCat("a header of ", text.size(), " bytes is too long for safetensors"));
  }
  write_length(text.size() - kLengthBytes, text);
  return text;
}

absl::StatusOr<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> beginning,
                                                           int64_t file_bytes,
                                                           const std::string& name) {
  ASSIGN_OR_RETURN(const int64_t length, checked_length(beginning, file_bytes, name));
  if (static_cast<int64_t>(beginning.size()) - kLengthBytes < length) {
    return Corrupt(absl::StrCat(name, ": the header is cut off"));
  }
  const std::string text(reinterpret_cast<const char*>(beginning.data()) + kLengthBytes,
                         static_cast<size_t>(length));
  ASSIGN_OR_RETURN(const json document, parse_json_strictly(text, kHeaderDepthMax, name));
  if (!document.is_object()) return Corrupt(absl::StrCat(name, ": the header is not an object"));
  SafetensorsHeader header;
  header.header_bytes = kLengthBytes + length;
  const int64_t data_bytes = file_bytes - header.header_bytes;
  for (const auto& [key, entry] : document.items()) {
    if (key == kMetadataKey) {
      RETURN_IF_ERROR(read_metadata(entry, name, header.metadata));
      continue;
    }
    ASSIGN_OR_RETURN(SafetensorsTensor tensor, read_tensor(key, entry, data_bytes, name));
    header.tensors.push_back(std::move(tensor));
  }
  std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  RETURN_IF_ERROR(check_without_gaps(header, data_bytes, name));
  return header;
}

absl::StatusOr<SafetensorsHeader> read_safetensors_header(ReadableFile& file,
                                                          const std::string& name) {
  std::vector<std::byte> bytes(static_cast<size_t>(std::min(file.size(), kLengthBytes)));
  RETURN_IF_ERROR(file.read_at(0, bytes));
  ASSIGN_OR_RETURN(const int64_t length, checked_length(bytes, file.size(), name));
  bytes.resize(static_cast<size_t>(kLengthBytes + length));
  RETURN_IF_ERROR(file.read_at(0, bytes));
  return parse_safetensors_header(bytes, file.size(), name);
}

}  // namespace evermoe
