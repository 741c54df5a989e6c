// The hosting of a job by one of its nodes, beside the node's agent.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "checkpoint/write/folder_term.h"
#include "control/agent/agent.h"
#include "control/hosting/host_grace.h"
#include "control/hosting/host_orders.h"
#include "control/launch/node_run.h"
#include "control/wire/mailbox.h"

namespace evermoe {

// Hosts the job when it is this node's turn, on a thread of its own, until it has been hosted to
// its end:
// * without a store where it can listen, and while nobody answers where the controller is to be; a
//   node whose job another host has taken over does not take it back;
// * with a store whenever it is elected; the agent is told where the host is.
// Where it cannot begin while the job goes on (may_host_later.h), it leaves that to others for a
// while; so it does where it is elected though another host has taken the job over.
// A job that has ended while this node was away is not begun again: the node ends as the job did.
class NodeHosting {
 public:
  // Both outlive it. REQUIRES: options.host.
  NodeHosting(const NodeOptions& options, Agent& agent);
  ~NodeHosting();

  // Any thread. The job would be without a host if this machine left.
  bool is_only_host();
  // The agent has ended: by what it was `told`, or else because of `why`. What the host says of the
  // job, if it knows. Once, before the destruction. If the job goes on without this node,
  // another one may host at once.
  std::optional<absl::StatusOr<RunSummary>> end(const std::optional<EndJob>& told,
                                                const std::string& why);

 private:
  void wait_for_place();
  absl::Status check_place();
  void campaign();
  absl::Status campaign_in(const std::string& key);
  enum class Hosted { kToItsEnd, kTakenOver, kNotNow };
  Hosted host(HostOrders& orders);
  void end_as_told(const std::string& how);
  bool is_stopped_within(absl::Duration time);
  bool is_elected(const std::shared_ptr<HostOrders>& session);
  void begin_session();
  void end_session(const std::string& why);
  void set_hosting(bool is_hosting);

  const NodeOptions& options_;
  Agent& agent_;
  const std::optional<NewestTerm> met_;  // when this node came
  HostGrace grace_;                      // the thread's
  Mailbox<bool> stopped_;
  Mailbox<bool> finished_;                    // the thread has nothing left to do
  Mailbox<std::shared_ptr<HostOrders>> won_;  // elections
  std::atomic<bool> job_goes_on_ = false;     // it has or had another host
  Mutex mutex_;
  std::shared_ptr<HostOrders> session_ ABSL_GUARDED_BY(mutex_);
  std::optional<std::string> end_why_ ABSL_GUARDED_BY(mutex_);
  bool is_hosting_ ABSL_GUARDED_BY(mutex_) = false;    // a controller of this node may live
  bool has_host_ ABSL_GUARDED_BY(mutex_) = true;       // as far as known
  std::optional<absl::StatusOr<RunSummary>> summary_;  // the thread's until it has ended
  std::thread thread_;
};

}  // namespace evermoe
