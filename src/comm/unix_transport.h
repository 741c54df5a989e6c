// The transport between processes of one machine: one AF_UNIX stream per pair.
//
// The kernel reports the death of a peer by itself: its stream ends, whatever killed it, and what it
// has sent until then is still delivered. A stopped peer is only noticed by a timeout.
//
// Threads: one mutex guards everything, held over system calls that do not block. Of the threads
// that wait, one leads: it sleeps in epoll without the mutex and works off what has come for
// everybody. The others sleep on condition variables until their operation is done or until the
// leader leaves and one of them takes over. So a thread that waits alone is woken by the kernel
// directly, and no other thread ever has to run.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "comm/transport_listener.h"

namespace evermoe {

struct UnixTransportOptions {
  // Bytes in flight between two processes. Small: more switches between the processes for large
  // messages; large: what is copied in has left the cache when it is copied out. 0 keeps the kernel's.
  int socket_buffer_bytes = 256 << 10;

  // How long close() tries to get goodbyes out to peers that do not read.
  absl::Duration close_flush_max = absl::Seconds(1);
};

// Listens on an abstract socket name, which is random and vanishes with the process.
// Its connect() gives InvalidInput if a rank is on another machine.
absl::StatusOr<std::unique_ptr<TransportListener>> listen_unix(const UnixTransportOptions& options);

}  // namespace evermoe
