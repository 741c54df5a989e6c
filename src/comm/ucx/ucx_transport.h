// The transport between machines: UCX tag matching over TCP (and RDMA where there is any).
//
// Never over UCX's own shared memory: a killed or stopped sender can block a receiver there for
// every healthy one. UCX reports the death of a peer whose connection breaks; a stopped peer is
// only noticed by a timeout.
//
// Each of the two kinds of traffic has a worker and a channel of its own (ucx_channel.h).
//
// Who may talk to us. UCX listens at a TCP port of every device that it may use, and whoever
// reaches one can send messages to this process. Those of a stranger, who does not know the job's
// secret, have no effect: a process says nothing and believes nothing before it has been greeted
// with a proof (transport/proven_greeting.h), and from then on a message is taken only if its name
// and its end carry the pass of its connection. What fails that is received again, or thrown away
// without having got memory of its size. Endpoints are made only to the addresses that the
// controller names.
//
// Not protected: the bytes of messages are neither encrypted nor hashed, so who can read or change
// packets on the way can read and change them, the passes among them; that is the network's job
// (IPsec, MACsec, a network of the job's own). UCX itself takes in what strangers send before we
// see it: small messages to names that nobody asks for stay in its memory, a transfer that somebody
// begins in UCX's own protocol in a greeting's name and never ends holds up that greeting, and its
// parser was not written for enemies. So its ports should be closed to other machines than the
// job's where others share the network.
//
// Views are told apart modulo 256 (ucx_tag.h). Service messages that UCX sends at
// once, the small ones, are not held back by Transport::kServiceBytesMax: they wait in its memory.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/transport/job_secret.h"
#include "comm/transport/transport_listener.h"

namespace evermoe {

struct UcxTransportOptions {
  // What UCX may use, never shared memory. UCX_TLS in the environment comes first ("rc,ud,tcp,self"
  // adds RDMA), unless it names shared memory.
  std::string transports = "tcp,self";

  // Network devices that UCX may choose from: "all", an interface, or "lo" on one machine alone.
  // UCX_NET_DEVICES in the environment comes before "all".
  std::string net_devices = "all";

  // How long close() waits for peers that do not read to take our last messages and goodbye.
  absl::Duration close_flush_max = absl::Seconds(1);

  // The job's; all its processes have the same.
  JobSecret secret;
};

// Variables that must be in the environment before the process starts, or UCX hooks memory
// management and signal handlers: {"UCX_MEM_EVENTS", "n"}, ...
std::vector<std::pair<std::string, std::string>> ucx_environment();

// Starts UCX and gets an address. Unsupported if UCX has no such transport or device here;
// InvalidInput without a secret.
absl::StatusOr<std::unique_ptr<TransportListener>> listen_ucx(const UcxTransportOptions& options);

}  // namespace evermoe
