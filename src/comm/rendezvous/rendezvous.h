// How the processes of a job find each other: each brings its rank and its transport address, and
// each leaves with everybody's.
//
// The server is a small TCP service with a versioned, length-limited protocol. It runs in
// `evermoe run`, or in rank 0's process when a cluster's launcher starts the workers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/ids.h"

namespace evermoe {

class RendezvousServer {
 public:
  // Listens on host:port (port 0: any free one) for one generation of `world_size` ranks.
  static absl::StatusOr<std::unique_ptr<RendezvousServer>> start(const std::string& host, int port,
                                                                 int world_size);
  virtual ~RendezvousServer() = default;  // stops at once; waiting members get an error
  virtual int port() const = 0;
};

struct RendezvousRequest {
  std::string server;  // "host:port"
  Rank rank;
  int world_size = 0;
  std::string address;  // this process's transport address, opaque
  // What must be equal on all members for their arithmetic to agree: configuration, binary, wheel,
  // CPU capability. A difference is InvalidInput on every member, naming the ranks that differ.
  std::string fingerprint;
};

// Blocks until all ranks have come. Returns the addresses in rank order.
// Timeout if some have not come in time (the message names the missing ranks).
absl::StatusOr<std::vector<std::string>> join_rendezvous(const RendezvousRequest& request,
                                                         absl::Duration timeout);

}  // namespace evermoe
