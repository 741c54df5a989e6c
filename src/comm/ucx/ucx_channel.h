// A channel of a UcxTransport: a worker, its endpoints, and the progress of all that moves there.
//
// The mutex guards the worker and what uses it: the messages in UCX's hands (ucx_flights.h), the
// connected processes (ucx_peers.h), callers' operations (ucx_operations.h) and the service
// messages that arrive (ucx_service_messages.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "comm/channel/channel.h"
#include "comm/ucx/ucx_flights.h"
#include "comm/ucx/ucx_operations.h"
#include "comm/ucx/ucx_peers.h"
#include "comm/ucx/ucx_service_messages.h"
#include "comm/ucx/ucx_worker.h"

namespace evermoe {

class UcxChannel final : public Channel {
 public:
  // `own_number` is the process_number() of this process's address; `secret` the job's.
  UcxChannel(Rank rank, int size, uint64_t own_number, const JobSecret& secret,
             std::unique_ptr<UcxWorker> worker, Traffic traffic, ProgressThread& progress);
  ~UcxChannel() override;
  // The only part of construction that can fail.
  absl::Status start();

  // Says which processes play these ranks. Their greetings are answered from now on; operations
  // with them wait for a connection.
  void name_processes(const std::map<Rank, UcxProcess>& processes);

  // As UcxPeers::opened().
  int64_t connections_opened() const;

  // Starts to say goodbye to everybody; nothing can be started afterwards.
  void say_goodbye();
  // Works until the deadline or until all have taken our last messages and know that we leave: then
  // true.
  bool flush(const Deadline& deadline);
  // Ends everything.
  void finish();

 private:
  absl::StatusOr<bool> is_connected(Rank rank) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void connect(Rank rank) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void begin(PendingOperation& operation) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void withdraw(PendingOperation& operation) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void end_views(GroupRange groups, View view, const absl::Status& reason) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void drop(Rank rank, const absl::Status& reason) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void drive() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool work(const Deadline& deadline) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  ProgressThread::Next work_unattended() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void look_for_greetings(ProgressThread::Next& next) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void on_send_waiter() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void on_room_for_service(Rank from) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Works off what has come for everybody. True if there was something.
  bool has_driven() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void sweep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Goes on with what has waited for connections that are made or lost now. True if there were any.
  bool settle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void wake_drivers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether closing now could take a message or our goodbye away from a peer.
  bool is_unheard() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::unique_ptr<UcxWorker> worker_ ABSL_PT_GUARDED_BY(mutex_);
  UcxFlights flights_ ABSL_GUARDED_BY(mutex_);
  UcxPeers peers_ ABSL_GUARDED_BY(mutex_);
  UcxOperations operations_ ABSL_GUARDED_BY(mutex_);
  // None in the channel of messages.
  std::optional<UcxServiceMessages> arriving_service_messages_ ABSL_GUARDED_BY(mutex_);
  // Of UCX's event descriptor, since there was something to do.
  int vain_calls_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace evermoe
