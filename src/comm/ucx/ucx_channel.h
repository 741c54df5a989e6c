// One of the two channels of a UcxTransport: a worker, its endpoints, and the progress of all that
// moves there. Messages and service messages have a channel each, for the reason given in
// unix_channel.h.
//
// One mutex guards the worker and what uses it: the messages in UCX's hands (ucx_flights.h), the
// connected processes (ucx_peers.h), callers' operations (ucx_operations.h) and the service
// messages (ucx_service_messages.h). The waiting threads drive the worker as in progress_driver.h,
// and the transport's progress thread where none waits and something large is under way.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "comm/transport/inbox.h"
#include "comm/transport/progress_driver.h"
#include "comm/transport/progress_thread.h"
#include "comm/transport/revocations.h"
#include "comm/transport/transport.h"
#include "comm/ucx/ucx_flights.h"
#include "comm/ucx/ucx_operations.h"
#include "comm/ucx/ucx_peers.h"
#include "comm/ucx/ucx_service_messages.h"
#include "comm/ucx/ucx_worker.h"

namespace evermoe {

class UcxChannel {
 public:
  enum class Traffic { kMessages, kService };

  // `own_number` is the process_number() of this process's address.
  UcxChannel(Rank rank, int size, uint64_t own_number, std::unique_ptr<UcxWorker> worker,
             Traffic traffic, ProgressThread& progress);
  ~UcxChannel();
  // The only part of construction that can fail.
  absl::Status start();

  // As in Transport; of this channel's traffic.
  std::unique_ptr<TransportOperation> start_send(Rank to, Tag tag,
                                                 std::span<const std::byte> bytes);
  std::unique_ptr<TransportOperation> start_receive(Rank from, Tag tag, std::span<std::byte> into);
  absl::Status wait(std::unique_ptr<TransportOperation> operation, absl::Duration timeout);
  bool done(TransportOperation& operation);
  absl::StatusOr<ServiceMessage> receive_service_message(absl::Duration timeout);
  void revoke(GroupRange groups, View view, const absl::Status& reason);

  // Drops the connection with the rank's process and the messages of it that nobody has received;
  // its service messages stay. What is pending with it and what is started before another process
  // has been met fail with `reason`.
  void vacate(Rank rank, const absl::Status& reason);

  // Connects with a process that is to play the rank, and greets it. PeerLost if it is found dead.
  absl::Status greet(Rank rank, const UcxProcess& process);

  // Waits until everybody has been greeted and has greeted us. PeerLost and InvalidInput as of
  // Transport::meet(); Timeout names the silent ranks.
  absl::Status await_greetings(const Deadline& deadline);

  // Ok while the rank's process is connected, as far as is known; else what operations with it fail
  // with. Never blocks.
  absl::Status state_of(Rank rank);

  // Of the progress thread.
  ProgressThread::Next drive_in_background();

  // Starts to say goodbye to everybody; nothing can be started afterwards.
  void say_goodbye();
  // Works until the deadline or until all have taken our last messages and know that we leave: then
  // true.
  bool flush(const Deadline& deadline);
  // Ends everything.
  void finish();

 private:
  absl::Status refusal(const Tag& tag) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void send_to_self(PendingOperation& send) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void block(PendingOperation& operation, const Deadline& deadline, MutexLock& lock)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool work(const Deadline& deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Works off what has come for everybody. True if there was something.
  bool drive() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // To be called for every operation with another process that has been started.
  void see_to(PendingOperation& operation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void sweep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<ServiceMessage> take_service_message() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status outcome_of_meeting() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void update_meeting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether closing now could take a message or our goodbye away from a peer.
  bool is_unheard() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Rank rank_;

  mutable Mutex mutex_;
  const std::unique_ptr<UcxWorker> worker_ ABSL_PT_GUARDED_BY(mutex_);
  // Before the flights: their operations are counted there.
  BackgroundProgress background_ ABSL_GUARDED_BY(mutex_);
  UcxFlights flights_ ABSL_GUARDED_BY(mutex_);
  UcxPeers peers_ ABSL_GUARDED_BY(mutex_);
  UcxOperations operations_ ABSL_GUARDED_BY(mutex_);
  // None in the channel of messages.
  std::optional<UcxServiceMessages> service_messages_ ABSL_GUARDED_BY(mutex_);
  Inbox from_self_ ABSL_GUARDED_BY(mutex_);
  Revocations revocations_ ABSL_GUARDED_BY(mutex_);
  int send_waiters_ ABSL_GUARDED_BY(mutex_) = 0;  // threads that wait for a send
  // Of the thread in await_greetings().
  PendingOperation* meeting_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // Of UCX's event descriptor, since there was something to do.
  int vain_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  ProgressDriver progress_driver_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace evermoe
