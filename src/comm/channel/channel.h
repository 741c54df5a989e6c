// One of the two channels of a transport between processes: messages have one, service messages the
// other, each with connections, a mutex and a leader (progress_driver.h) of its own. So the thread
// that receives service messages and the threads that train never wait for each other: the kernel
// wakes each of them for its own traffic only, a service message of many megabytes is in nobody's
// way, and a message that is held keeps no service message back.
//
// Here is what does not depend on how bytes move: operations from their start to their end,
// waiting, also for a connection, messages to oneself, revoking. How connections are made and bytes
// move is up to derived classes (unix_channel.h, ucx_channel.h). One mutex guards everything of
// both.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "comm/channel/inbox.h"
#include "comm/channel/parked_operations.h"
#include "comm/channel/progress_driver.h"
#include "comm/channel/progress_thread.h"
#include "comm/channel/revocations.h"
#include "comm/channel/service_inbox.h"
#include "comm/transport/transport.h"

namespace evermoe {

class Channel {
 public:
  virtual ~Channel() = default;

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

  bool has_connection(Rank rank);
  // Transport::connect()
  void ask_for_connection(Rank rank);
  // Sends to other ranks that have not finished. Without waiting for the mutex.
  int sends_under_way() const { return sends_under_way_.load(); }

  // Of the progress thread.
  ProgressThread::Next drive_in_background();

 protected:
  Channel(Rank rank, int size, Traffic traffic, ProgressThread& progress);

  // ---- How bytes move. The mutex is held.

  // True if operations with the rank can begin, also to fail because its process is lost; false if
  // they have to wait for a connection. Else what they fail with: nobody plays the rank.
  virtual absl::StatusOr<bool> is_connected(Rank rank) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;
  // An operation waits for a connection with the rank: on_connected() follows, or vacate().
  virtual void connect(Rank rank) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;
  // Starts an operation with a connected process, whose tag is not revoked.
  virtual void begin(PendingOperation& operation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;
  // Forgets an operation that was begun and has not finished.
  virtual void withdraw(PendingOperation& operation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;
  // Ends the operations and drops the messages of views up to `view`; the revocation is noted.
  virtual void end_views(GroupRange groups, View view, const absl::Status& reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;
  virtual void drop(Rank rank, const absl::Status& reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;

  // Works off what there is to do now, without blocking.
  virtual void drive() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;
  // Works as the leader: sleeps without the mutex, at most until the deadline. False if that has
  // passed.
  virtual bool work(const Deadline& deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;
  // drive() for the progress thread.
  virtual ProgressThread::Next work_unattended() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;
  // The progress thread comes by, for another reason or because `next` has asked for it.
  virtual void look_for_greetings(ProgressThread::Next&) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {}

  // One thread more waits for a send: more of what the others send may have to come in.
  virtual void on_send_waiter() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;
  // The box has room again: a service message of that rank has been taken out.
  virtual void on_room_for_service(Rank from) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;

  // ---- For derived classes.

  // Waits until the operation is finished or the deadline has passed.
  void block(PendingOperation& operation, const Deadline& deadline, MutexLock& lock)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Begins what has waited for the connection.
  void on_connected(Rank rank) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Finishes what no connection has.
  void end_rest(const absl::Status& reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Rank rank_;

  mutable Mutex mutex_;
  BackgroundProgress background_ ABSL_GUARDED_BY(mutex_);
  Revocations revocations_ ABSL_GUARDED_BY(mutex_);
  // None in the channel of messages.
  std::optional<ServiceInbox> service_messages_ ABSL_GUARDED_BY(mutex_);
  int send_waiters_ ABSL_GUARDED_BY(mutex_) = 0;  // threads that wait for a send
  std::atomic<int> sends_under_way_ = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  ProgressDriver progress_driver_ ABSL_GUARDED_BY(mutex_);

 private:
  absl::Status refusal(const Tag& tag) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void start(PendingOperation& operation);
  bool begin_or_park(PendingOperation& operation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void exchange_with_self(PendingOperation& operation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void send_to_self(PendingOperation& send) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void count_send_waiter(const PendingOperation& operation, int change)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<ServiceMessage> take_service_message() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Inbox from_self_ ABSL_GUARDED_BY(mutex_);
  ParkedOperations parked_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace evermoe
