#include "worker/joiner_process.h"

#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "config/job_topology.h"
#include "control/keys/job_keys.h"
#include "recovery/protocol/joiner_seats.h"

namespace evermoe {

absl::StatusOr<JobTransportOptions> transport_options(const WorkerOptions& options,
                                                      const JobConfig& config) {
  JobTransportOptions transport;
  ASSIGN_OR_RETURN(transport.kind, parse_transport_kind(config.parallel.transport));
  if (transport.kind == JobTransportKind::kUnix) return transport;
  if (options.secret.empty()) return InvalidInput("--secret FILE: UCX needs the secret of the job");
  ASSIGN_OR_RETURN(transport.ucx_options.secret, load_secret(options.secret));
  return transport;
}

absl::StatusOr<std::unique_ptr<JoinerProcess>> JoinerProcess::start(const JoinerWanted& wanted,
                                                                    const WorkerOptions& options,
                                                                    const JobConfig& config,
                                                                    Joiner::OnWhole on_whole) {
  const int world_size = topology_of(config).world_size();
  if (wanted.rank.value < 0 || wanted.rank.value >= world_size)
    return InvalidInput("the job has no such role");
  ASSIGN_OR_RETURN(const JobTransportOptions transport_kind, transport_options(options, config));
  ASSIGN_OR_RETURN(auto listener, listen_job(transport_kind));
  const int seats = seats_of_job(world_size);
  ASSIGN_OR_RETURN(auto transport,
                   listener->open(joiner_seat(wanted.rank, world_size), seats, wanted.view));
  std::vector<PeerAddress> table(static_cast<size_t>(seats));
  table[static_cast<size_t>(wanted.rank.value)] = wanted.leaver;
  RETURN_IF_ERROR(transport->set_peers(table));
  return std::unique_ptr<JoinerProcess>(new JoinerProcess(wanted, config.protection.memory_budget,
                                                          std::move(listener), std::move(transport),
                                                          std::move(on_whole)));
}

JoinerProcess::JoinerProcess(const JoinerWanted& wanted, int64_t bytes_max,
                             std::unique_ptr<TransportListener> listener,
                             std::unique_ptr<Transport> transport, Joiner::OnWhole on_whole)
    : wanted_(wanted),
      listener_(std::move(listener)),
      transport_(std::move(transport)),
      joiner_(wanted.rank, *transport_, bytes_max, std::move(on_whole)),
      thread_([this] {
        const absl::Status served = joiner_.serve();
        if (!served.ok()) log_error(std::string(served.message()));
      }) {}

JoinerProcess::~JoinerProcess() { end(); }

PeerAddress JoinerProcess::address() const { return {listener_->address(), wanted_.view}; }

std::vector<Chunk> JoinerProcess::take(Rank role, View since) {
  end();
  return role == wanted_.rank && since == wanted_.next ? joiner_.take() : std::vector<Chunk>();
}

void JoinerProcess::end() {
  if (!thread_.joinable()) return;
  joiner_.stop();
  thread_.join();
  transport_->close();
}

}  // namespace evermoe
