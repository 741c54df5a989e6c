// Slurm's way to write many hosts: "gpu[001-003,7],login1", "rack[0-1]node[2-3]".
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace evermoe {

inline constexpr size_t kHostsMax = 1 << 16;
inline constexpr size_t kHostListBytesMax = 1 << 20;

// All hosts, in the order in which they are written; numbers are as wide as the first one of their
// range. Several brackets multiply, the last one counts fastest. InvalidInput says what is wrong
// with the list, or that it has more than kHostsMax hosts.
absl::StatusOr<std::vector<std::string>> expand_host_list(const std::string& list);

}  // namespace evermoe
