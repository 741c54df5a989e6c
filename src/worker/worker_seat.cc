#include "worker/worker_seat.h"

#include <utility>

#include "base/error.h"
#include "comm/transport/job_transport.h"
#include "comm/transport/seated_transport.h"
#include "config/job_topology.h"
#include "control/keys/job_keys.h"

namespace evermoe {
namespace {

absl::StatusOr<JobTransportOptions> transport_options(const WorkerOptions& options,
                                                      const JobConfig& config) {
  JobTransportOptions transport;
  ASSIGN_OR_RETURN(transport.kind, parse_transport_kind(config.parallel.transport));
  if (transport.kind == JobTransportKind::kUnix) return transport;
  if (options.secret.empty()) return InvalidInput("--secret FILE: UCX needs the secret of the job");
  ASSIGN_OR_RETURN(transport.ucx_options.secret, load_secret(options.secret));
  return transport;
}

}  // namespace

absl::StatusOr<std::shared_ptr<WorkerSeat>> WorkerSeat::take(const WorkerOptions& options,
                                                             const JobConfig& config, int seat) {
  ASSIGN_OR_RETURN(const JobTransportOptions kind, transport_options(options, config));
  ASSIGN_OR_RETURN(auto inner, listen_job(kind));
  auto listener = listen_in_seat(std::move(inner), seat);
  const int seats = seats_of_job(topology_of(config).world_size());
  ASSIGN_OR_RETURN(auto transport, listener->open(options.rank, seats, options.since));
  return std::shared_ptr<WorkerSeat>(new WorkerSeat(std::move(listener), std::move(transport)));
}

}  // namespace evermoe
