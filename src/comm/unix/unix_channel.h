// A channel of a UnixTransport: its connections, and the progress of all that moves there.
//
// The mutex is held over system calls that do not block. Of the threads that wait on the channel,
// one leads: it sleeps in epoll without the mutex and works off what has come for everybody.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "comm/channel/channel.h"
#include "comm/unix/unix_connection.h"

struct epoll_event;

namespace evermoe {

class UnixChannel final : public Channel {
 public:
  // Asks for a connection with a process that has been named; called with the mutex held.
  using Want = std::function<void(Rank)>;
  UnixChannel(Rank rank, int size, Traffic traffic, ProgressThread& progress, Want want);

  // The only part of construction that can fail.
  absl::Status start();

  // From now on operations with the rank wait for a connection, if there is none yet.
  void name_process(Rank rank);

  // The peer is the process at the other end of `socket` from now on; what has waited for it
  // begins. `buffer_bytes` as in UnixTransportOptions.
  absl::Status install(Rank peer, FileDescriptor socket, int buffer_bytes);

  // Starts to say goodbye to everybody; nothing can be started afterwards.
  void say_goodbye();
  // Waits for the goodbyes to be taken until `deadline` and ends everything.
  void finish(const Deadline& deadline);

 private:
  // Who plays a rank: at one's own nobody.
  struct Place {
    std::unique_ptr<UnixConnection> connection;
    absl::Status empty;  // if there is no connection: Ok to wait for one, or what to fail with
  };

  absl::StatusOr<bool> is_connected(Rank peer) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void connect(Rank peer) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { want_(peer); }
  void begin(PendingOperation& operation) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void withdraw(PendingOperation& operation) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void end_views(GroupRange groups, View view, const absl::Status& reason) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void drop(Rank peer, const absl::Status& reason) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void drive() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool work(const Deadline& deadline) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  ProgressThread::Next work_unattended() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void on_send_waiter() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void on_room_for_service(Rank from) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Place& place(Rank rank) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void handle(std::span<const epoll_event> events) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  UnixConnection* find(uint64_t key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void update_interest(UnixConnection& connection, bool disarm_reading)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Want want_;
  FileDescriptor epoll_;

  // Before the connections, which refer to it.
  UnixChannelState state_ ABSL_GUARDED_BY(mutex_);
  std::vector<Place> places_ ABSL_GUARDED_BY(mutex_);
  uint32_t connection_count_ ABSL_GUARDED_BY(mutex_) = 0;  // ever made
};

}  // namespace evermoe
