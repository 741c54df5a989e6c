// The transport between processes of one machine: two AF_UNIX streams per pair, one for messages
// and one for service messages.
//
// The kernel reports the death of a peer by itself: its stream ends, whatever killed it, and what
// it has sent until then is still delivered. A stopped peer is only noticed by a timeout.
//
// Each of the two kinds of traffic has a channel of its own (unix_channel.h). A thread that waits
// alone on its channel is woken by the kernel directly, and no other thread ever has to run.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "comm/transport/transport_listener.h"

namespace evermoe {

struct UnixTransportOptions {
  // Bytes in flight between two processes. Small: more switches between the processes for large
  // messages; large: what is copied in has left the cache when it is copied out. 0 keeps the
  // kernel's.
  int socket_buffer_bytes = 256 << 10;

  // How long close() tries to get goodbyes out to peers that do not read.
  absl::Duration close_flush_max = absl::Seconds(1);
};

// Listens on an abstract socket name, which is random and vanishes with the process. Another user
// of the machine may connect with it, or take the name when the process is dead: both ends ask the
// kernel who is at the other one and refuse another user, so nothing has to be proven by a secret.
//
// set_peers() gives InvalidInput if a rank is on another machine.
absl::StatusOr<std::unique_ptr<TransportListener>> listen_unix(const UnixTransportOptions& options);

}  // namespace evermoe
