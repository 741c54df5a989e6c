// The transport of a job: streams between processes of one machine, UCX between those of different
// ones.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "comm/transport/transport_listener.h"
#include "comm/ucx/ucx_transport.h"
#include "comm/unix/unix_transport.h"

namespace evermoe {

enum class JobTransportKind {
  kAuto,  // for each pair: streams inside a machine, UCX between machines
  kUnix,
  kUcx,
};

struct JobTransportOptions {
  JobTransportKind kind = JobTransportKind::kAuto;
  UnixTransportOptions unix_options;
  UcxTransportOptions ucx_options;
};

// All ranks of a job must use the same kind; connect() and set_peers() give InvalidInput otherwise.
//
// With kAuto the addresses of each table decide anew: a rank may move to another
// machine, and a job may grow onto a second one. connect() leaves UCX out if all are on one
// machine.
absl::StatusOr<std::unique_ptr<TransportListener>> listen_job(const JobTransportOptions& options);

// "auto", "unix" or "ucx"; InvalidInput for anything else.
absl::StatusOr<JobTransportKind> parse_transport_kind(const std::string& name);

}  // namespace evermoe
