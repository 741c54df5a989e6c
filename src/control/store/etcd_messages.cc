#include "control/store/etcd_messages.h"

#include <functional>
#include <string_view>

#include "base/error.h"

namespace evermoe::etcd {
namespace {

// Of protobuf's encoding.
enum WireType : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void put_varint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>((value & 0x7f) | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

void put_number(std::string& out, uint64_t field, int64_t value) {
  put_varint(out, field << 3 | kVarint);
  put_varint(out, static_cast<uint64_t>(value));
}

void put_bytes(std::string& out, uint64_t field, const std::string& value) {
  put_varint(out, field << 3 | kBytes);
  put_varint(out, value.size());
  out += value;
}

bool take_varint(std::string_view& in, uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64 && !in.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(in.front());
    in.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return true;
  }
  return false;
}

struct Field {
  uint64_t number = 0;
  uint64_t type = kVarint;
  int64_t value = 0;       // of a varint
  std::string_view bytes;  // of bytes, texts and messages

  bool is_number(uint64_t which) const { return number == which && type == kVarint; }
  bool is_bytes(uint64_t which) const { return number == which && type == kBytes; }
};

bool take_bytes(std::string_view& in, uint64_t size, std::string_view& bytes) {
  if (size > in.size()) return false;
  bytes = in.substr(0, size);
  in.remove_prefix(size);
  return true;
}

bool take_field(std::string_view& in, Field& field) {
  uint64_t tag = 0, value = 0;
  if (!take_varint(in, tag) || tag >> 3 == 0) return false;
  field = {.number = tag >> 3, .type = tag & 7, .value = 0, .bytes = {}};
  std::string_view skipped;
  switch (field.type) {
    case kVarint:
      if (!take_varint(in, value)) return false;
      field.value = static_cast<int64_t>(value);
      return true;
    case kBytes: return take_varint(in, value) && take_bytes(in, value, field.bytes);
    case kFixed64: return take_bytes(in, 8, skipped);
    case kFixed32: return take_bytes(in, 4, skipped);
    default: return false;
  }
}

absl::Status for_each_field(std::string_view in, const std::function<void(const Field&)>& see) {
  while (!in.empty()) {
    Field field;
    if (!take_field(in, field)) return Corrupt("etcd's answer is no message of its API");
    see(field);
  }
  return absl::OkStatus();
}

// The first of RangeResponse.kvs.
absl::StatusOr<std::optional<KeyValue>> read_range(std::string_view bytes) {
  std::optional<std::string_view> first;
  RETURN_IF_ERROR(for_each_field(bytes, [&](const Field& field) {
    if (field.is_bytes(2) && !first) first = field.bytes;
  }));
  if (!first) return std::nullopt;
  KeyValue found;
  RETURN_IF_ERROR(for_each_field(*first, [&](const Field& field) {
    if (field.is_bytes(5)) found.value = std::string(field.bytes);
    if (field.is_number(6)) found.lease = field.value;
  }));
  return found;
}

}  // namespace

std::string lease_grant_request(int64_t ttl_seconds) {
  std::string request;
  put_number(request, 1, ttl_seconds);  // LeaseGrantRequest.TTL
  return request;
}

std::string lease_request(int64_t lease) {
  std::string request;
  put_number(request, 1, lease);  // ID
  return request;
}

std::string range_request(const std::string& key) {
  std::string request;
  put_bytes(request, 1, key);  // RangeRequest.key; without range_end it is that key alone
  return request;
}

std::string create_or_read_request(const std::string& key, const std::string& value,
                                   int64_t lease) {
  constexpr int64_t kEqual = 0, kCreateRevision = 1;
  std::string compare;
  put_number(compare, 1, kEqual);           // result
  put_number(compare, 2, kCreateRevision);  // target
  put_bytes(compare, 3, key);
  put_number(compare, 5, 0);  // create_revision: nobody has made it
  std::string put;
  put_bytes(put, 1, key);
  put_bytes(put, 2, value);
  put_number(put, 3, lease);
  std::string put_operation, read_operation;
  put_bytes(put_operation, 2, put);                  // RequestOp.request_put
  put_bytes(read_operation, 1, range_request(key));  // RequestOp.request_range
  std::string request;
  put_bytes(request, 1, compare);
  put_bytes(request, 2, put_operation);   // success
  put_bytes(request, 3, read_operation);  // failure
  return request;
}

absl::StatusOr<LeaseAnswer> read_lease_answer(const std::string& bytes) {
  LeaseAnswer answer;
  RETURN_IF_ERROR(for_each_field(bytes, [&](const Field& field) {
    if (field.is_number(2)) answer.lease = field.value;
    if (field.is_number(3)) answer.ttl_seconds = field.value;
  }));
  return answer;
}

absl::StatusOr<std::optional<KeyValue>> read_range_answer(const std::string& bytes) {
  return read_range(bytes);
}

absl::StatusOr<std::optional<KeyValue>> read_create_answer(const std::string& bytes) {
  bool succeeded = false;
  std::optional<std::string_view> read;
  RETURN_IF_ERROR(for_each_field(bytes, [&](const Field& field) {
    if (field.is_number(2)) succeeded = field.value != 0;
    if (field.is_bytes(3)) read = field.bytes;  // TxnResponse.responses
  }));
  if (succeeded) return std::nullopt;
  if (!read) return Corrupt("etcd's answer to a transaction has no response in it");
  std::optional<std::string_view> range;
  RETURN_IF_ERROR(for_each_field(*read, [&](const Field& field) {
    if (field.is_bytes(1)) range = field.bytes;  // ResponseOp.response_range
  }));
  if (!range) return Corrupt("etcd's answer to a transaction has no range in it");
  ASSIGN_OR_RETURN(std::optional<KeyValue> found, read_range(*range));
  if (!found) return Corrupt("etcd says of a key that it is there and that it is not");
  return found;
}

}  // namespace evermoe::etcd
