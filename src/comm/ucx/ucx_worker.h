// Owns UCX contexts and workers.
#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/ucx/ucx_transport.h"

namespace evermoe {

absl::Status ucx_error(const std::string& what, ucs_status_t status);

// What UCX may use. Its workers may be used by different threads at a time.
class UcxContext {
 public:
  static absl::StatusOr<std::shared_ptr<const UcxContext>> create(
      const UcxTransportOptions& options);
  ~UcxContext();
  UcxContext(const UcxContext&) = delete;
  UcxContext& operator=(const UcxContext&) = delete;
  ucp_context_h get() const { return context_; }

 private:
  UcxContext() = default;
  ucp_context_h context_ = nullptr;
};

// Not synchronised: the mutex of its channel guards it.
class UcxWorker {
 public:
  static absl::StatusOr<std::unique_ptr<UcxWorker>> create(
      std::shared_ptr<const UcxContext> context);
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  // As bytes.
  absl::StatusOr<std::string> address() const;
  ucp_worker_h get() const { return worker_; }
  int event_fd() const { return event_fd_; }

  // Runs callbacks until nothing is left to do for now. True if there was something to do.
  bool progress();
  // True if the event descriptor will report the next thing to do; false if there is some now.
  absl::StatusOr<bool> arm();

 private:
  UcxWorker() = default;

  std::shared_ptr<const UcxContext> context_;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;
};

}  // namespace evermoe
