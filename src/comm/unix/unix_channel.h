// One of the two channels of a UnixTransport: its connections, and the progress of all that moves
// there.
//
// Messages and service messages have a channel each, with streams, a mutex and a leader
// (progress_driver.h) of its own. So the thread that receives service messages and the threads that
// train never wait for each other: the kernel wakes each of them for its own traffic only, a
// service message of many megabytes is in nobody's way, and a message that is held keeps no service
// message back.
//
// One mutex guards everything, held over system calls that do not block. Of the threads that wait
// on the channel, one leads: it sleeps in epoll without the mutex and works off what has come for
// everybody. Where nobody waits, large messages are moved by the transport's progress thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "comm/transport/progress_driver.h"
#include "comm/transport/progress_thread.h"
#include "comm/transport/transport.h"
#include "comm/unix/unix_connection.h"

struct epoll_event;

namespace evermoe {

class UnixChannel {
 public:
  enum class Traffic { kMessages, kService };

  UnixChannel(Rank rank, int size, Traffic traffic, ProgressThread& progress);

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

  // The peer is the process at the other end of `socket` from now on. `buffer_bytes` as in
  // UnixTransportOptions.
  absl::Status install(Rank peer, FileDescriptor socket, int buffer_bytes);

  // Drops the connection with the peer's process. What is pending with it and what is started
  // before another process is installed fail with `reason`.
  void vacate(Rank peer, const absl::Status& reason);

  // Ok while the peer's process is connected, as far as has been read; else what operations with it
  // fail with. Never blocks.
  absl::Status state_of(Rank peer);

  // Of the progress thread.
  ProgressThread::Next drive_in_background();

  // Starts to say goodbye to everybody; nothing can be started afterwards.
  void say_goodbye();
  // Waits for the goodbyes to be taken until `deadline` and ends everything.
  void finish(const Deadline& deadline);

 private:
  // Who plays a rank: at one's own nobody.
  struct Seat {
    std::unique_ptr<UnixConnection> connection;
    absl::Status empty;  // what operations fail with if there is no connection
  };

  Seat& seat(Rank rank) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status refusal(const Tag& tag) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void send_to_self(PendingOperation& send) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void withdraw(PendingOperation& operation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void block(PendingOperation& operation, const Deadline& deadline, MutexLock& lock)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool work(const Deadline& deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<ServiceMessage> take_service_message() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void count_send_waiter(const PendingOperation& operation, int change)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void poll_once() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void handle(std::span<const epoll_event> events) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  UnixConnection* find(uint64_t key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void update_interest(UnixConnection& connection, bool disarm_reading)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Rank rank_;
  FileDescriptor epoll_;

  Mutex mutex_;
  // Before the connections, which refer to them.
  UnixChannelState state_ ABSL_GUARDED_BY(mutex_);
  BackgroundProgress background_ ABSL_GUARDED_BY(mutex_);
  std::vector<Seat> seats_ ABSL_GUARDED_BY(mutex_);
  uint32_t connection_count_ ABSL_GUARDED_BY(mutex_) = 0;  // ever made
  Inbox from_self_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  ProgressDriver progress_driver_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace evermoe
