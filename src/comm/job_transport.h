// The transport of a job: streams between processes of one machine, UCX between machines.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "comm/transport_listener.h"
#include "comm/ucx_transport.h"
#include "comm/unix_transport.h"

namespace evermoe {

enum class JobTransportKind {
  kAuto,  // kUnix if all ranks are on one machine, else kUcx; costs a UCX start-up either way
  kUnix,
  kUcx,
};

struct JobTransportOptions {
  JobTransportKind kind = JobTransportKind::kAuto;
  UnixTransportOptions unix_options;
  UcxTransportOptions ucx_options;
};

// All ranks of a job must use the same kind; connect() and meet() give InvalidInput otherwise.
//
// With kAuto the addresses decide in connect(), and after open() the first table that names others.
// The choice is for good, for every process of the job: streams do not take in a process on another
// machine later (InvalidInput), and where a job on several machines has shrunk to one, a new process
// has to be started with kUcx. Until the choice has fallen on UCX, letters to oneself that have not
// been received are lost with it.
absl::StatusOr<std::unique_ptr<TransportListener>> listen_job(const JobTransportOptions& options);

// "auto", "unix" or "ucx"; InvalidInput for anything else.
absl::StatusOr<JobTransportKind> parse_transport_kind(const std::string& name);

}  // namespace evermoe
