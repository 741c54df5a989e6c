// What a standby does while it waits for a certain role: keeps what the process that plays it gives
// it (recovery/member/joiner.h).
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/transport/job_transport.h"
#include "config/job_config.h"
#include "control/controller/controller_interface.h"
#include "recovery/member/joiner.h"
#include "worker/worker.h"

namespace evermoe {

// For all transports of a worker.
absl::StatusOr<JobTransportOptions> transport_options(const WorkerOptions& options,
                                                      const JobConfig& config);

class JoinerProcess {
 public:
  // Is there from now on, at address(). `on_whole` is called by a thread of its own.
  static absl::StatusOr<std::unique_ptr<JoinerProcess>> start(const JoinerWanted& wanted,
                                                              const WorkerOptions& options,
                                                              const JobConfig& config,
                                                              Joiner::OnWhole on_whole);
  ~JoinerProcess();

  PeerAddress address() const;
  // What it has been given, if that is of use to the process that plays this role from this view
  // on. Nothing comes any more.
  std::vector<Chunk> take(Rank role, View since);

 private:
  JoinerProcess(const JoinerWanted& wanted, int64_t bytes_max,
                std::unique_ptr<TransportListener> listener, std::unique_ptr<Transport> transport,
                Joiner::OnWhole on_whole);
  void end();

  const JoinerWanted wanted_;
  const std::unique_ptr<TransportListener> listener_;
  const std::unique_ptr<Transport> transport_;
  Joiner joiner_;
  std::thread thread_;
};

}  // namespace evermoe
