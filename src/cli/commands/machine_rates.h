// How fast this machine moves bytes, measured. Medians of a few rounds; each call takes a second or
// so.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace evermoe {

// Bytes of source per second that one thread copies from memory to memory, `bytes` at a time (more
// than caches hold).
double memory_copy_rate(int64_t bytes);

// Bytes read and written per second while every processor copies its own.
double memory_traffic_rate(int processors, int64_t bytes);

struct DiskRates {
  double write_bytes_per_second = 0;  // past the page cache where the file system can, and fsync
  double read_bytes_per_second = 0;  // the same file afterwards; where writes went through the page
                                     // cache it may come from there
};
// In a temporary file in `directory`, removed afterwards. InvalidInput if there is no such folder.
absl::StatusOr<DiskRates> disk_rates(const std::string& directory, int64_t bytes);

struct StreamRates {
  double bytes_per_second = 0;
  double latency_seconds = 0;  // half a round trip of one byte
};
// Over TCP on the loopback interface to another process, which is started as `program profile
// --echo FD`.
absl::StatusOr<StreamRates> stream_rates(const std::string& program, int64_t bytes);

// That process's part: takes messages (8 bytes of length, then so many bytes) and answers each with
// one byte, until a length of 0. Cancelled if the other end goes before.
absl::Status echo_messages(int fd);

}  // namespace evermoe
