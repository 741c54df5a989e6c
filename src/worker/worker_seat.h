// Where a worker is found by others: its listener, and its transport in one of the two seats of its
// role (comm/transport/seated_transport.h). A joiner's is that of the role when it takes it.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "comm/transport/transport_listener.h"
#include "config/job_config.h"
#include "worker/worker.h"

namespace evermoe {

class WorkerSeat {
 public:
  // For options.rank from options.since on.
  static absl::StatusOr<std::shared_ptr<WorkerSeat>> take(const WorkerOptions& options,
                                                          const JobConfig& config, int seat);

  const std::string& address() const { return listener_->address(); }
  Transport& transport() { return *transport_; }

 private:
  WorkerSeat(std::unique_ptr<TransportListener> listener, std::unique_ptr<Transport> transport)
      : listener_(std::move(listener)), transport_(std::move(transport)) {}

  const std::unique_ptr<TransportListener> listener_;
  const std::unique_ptr<Transport> transport_;
};

}  // namespace evermoe
