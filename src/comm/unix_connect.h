// Builds the mesh of streams of a UnixTransport: listening, greeting, accepting.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "comm/deadline.h"
#include "comm/socket.h"

namespace evermoe {

struct ListeningSocket {
  FileDescriptor socket;
  std::string name;  // abstract, without the leading zero byte
};

absl::StatusOr<ListeningSocket> listen_on_random_name();

// One stream per rank (none at `rank` itself): connects to the lower ranks and accepts the higher
// ones; both ends greet with rank and world size. Errors as of
// TransportListener::connect().
absl::StatusOr<std::vector<FileDescriptor>> connect_mesh(const FileDescriptor& listener, Rank rank,
                                                         const std::vector<std::string>& names,
                                                         const Deadline& deadline);

}  // namespace evermoe
