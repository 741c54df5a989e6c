// Whether a machine reaches itself: a connection with both ends in this process, and bytes that go
// to and fro. Small enough for the buffers of any kernel.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace evermoe {

// Over TCP, at a free port of this address, such as "127.0.0.1". Timeout or Internal.
absl::Status try_tcp_loopback(const std::string& address);
// Over a socket in this folder, which is removed again.
absl::Status try_unix_loopback(const std::string& folder);

}  // namespace evermoe
