// The few messages of etcd's API (v3: etcd/api/etcdserverpb/rpc.proto) that an election needs, as
// bytes.
//
// Written by hand because generated protobuf code cannot be linked into `evermoe` (why: see
// control/wire/control_codec.h): of each message only the fields that are used, with etcd's
// numbers. Unknown fields, and those of another type than theirs, are skipped, as protobuf wants
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace evermoe::etcd {

struct KeyValue {
  std::string value;
  int64_t lease = 0;
  friend bool operator==(const KeyValue&, const KeyValue&) = default;
};

std::string lease_grant_request(int64_t ttl_seconds);
std::string lease_request(int64_t lease);  // LeaseRevoke and LeaseKeepAlive
std::string range_request(const std::string& key);
// If nobody has made the key: puts it with the lease; else reads it.
std::string create_or_read_request(const std::string& key, const std::string& value, int64_t lease);

struct LeaseAnswer {
  int64_t lease = 0;
  int64_t ttl_seconds = 0;  // 0 or less: it is over
  friend bool operator==(const LeaseAnswer&, const LeaseAnswer&) = default;
};
// LeaseGrant and LeaseKeepAlive. Corrupt, here and below, if the bytes are no such message.
absl::StatusOr<LeaseAnswer> read_lease_answer(const std::string& bytes);
// nullopt: there is no such key.
absl::StatusOr<std::optional<KeyValue>> read_range_answer(const std::string& bytes);
// Of create_or_read_request(): nullopt: it was made.
absl::StatusOr<std::optional<KeyValue>> read_create_answer(const std::string& bytes);

}  // namespace evermoe::etcd
