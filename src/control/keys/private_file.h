// Small files and folders that nobody else may read or write.
//
// Errors name the path, and the command that puts it right. InvalidInput for what a person has to
// change; NotFound where it is missing; Internal for what the system refuses.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace evermoe {

// A folder, no link, of this user, closed to all others.
absl::Status check_private_folder(const std::string& path);

// The whole file, likewise of this user and closed to all others. InvalidInput if it is larger than
// `bytes_max`.
absl::StatusOr<std::string> read_private_file(const std::string& path, size_t bytes_max);

// Makes the file, which must not exist, with mode 0600; it is on the disk when this returns.
absl::Status write_private_file(const std::string& path, const std::string& contents);

}  // namespace evermoe
