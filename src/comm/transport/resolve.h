// Names of IPv4 hosts to socket addresses.
#pragma once

#include <netinet/in.h>

#include <string>

#include "absl/status/statusor.h"

namespace evermoe {

// InvalidInput if the host is unknown or the port impossible. Blocks as long as the system's
// resolver does; dotted addresses do not block.
absl::StatusOr<sockaddr_in> resolve(const std::string& host, int port);

// Of "host:port".
absl::StatusOr<sockaddr_in> resolve(const std::string& host_and_port);

}  // namespace evermoe
