// The listening sockets of a control plane that is reached over a network: takes connections, hands
// them to gRPC, and cuts those that do not prove in time that they belong to the job.
//
// gRPC does the proving (TLS, both ways), on threads of its own, and gives up a handshake by
// itself; but it takes as many connections as there are descriptors, and nothing in it ends one
// whose other end is silent after the handshake. So a second descriptor of every connection stays
// here until its first valid envelope has come, at most UnprovenConnections::kMax of them.
//
// What was refused is said in the log, at most once per kSayAgain.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "comm/transport/socket.h"
#include "control/wire/unproven_connections.h"

namespace evermoe {

class ControlDoor {
 public:
  static constexpr absl::Duration kSayAgain = absl::Minutes(1);

  // Listens at HOST:PORT; port 0 takes a free one. Internal if it cannot be had.
  static absl::StatusOr<std::unique_ptr<ControlDoor>> open(const std::string& address);
  // Those that have come are gRPC's.
  ~ControlDoor();
  ControlDoor(const ControlDoor&) = delete;
  ControlDoor& operator=(const ControlDoor&) = delete;

  int port() const { return port_; }
  // From now on `take` owns every connection (a descriptor); called by the door's thread.
  void start(std::function<void(int connection)> take);
  // Takes no more connections, as destruction.
  void stop();
  // The connection from there (gRPC's name for it) has proven itself. Any thread.
  void on_proven(const std::string& peer);

 private:
  struct Connection {
    FileDescriptor descriptor;
    std::string peer;
  };
  ControlDoor();
  void run();
  void accept_from(const FileDescriptor& listener);
  void add(FileDescriptor connection);
  void cut_overdue();
  void forget_ended(const std::vector<UnprovenConnections::Number>& ended);
  void forget(std::map<UnprovenConnections::Number, Connection>::iterator connection)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void refuse(const std::string& peer, const char* why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  int port_ = 0;
  std::vector<FileDescriptor> listeners_;
  FileDescriptor wake_up_;
  std::function<void(int connection)> take_;
  absl::Duration pause_until_;  // of accepting: no descriptor was left

  Mutex mutex_;
  bool stops_ ABSL_GUARDED_BY(mutex_) = false;
  UnprovenConnections::Number last_ ABSL_GUARDED_BY(mutex_) = 0;
  UnprovenConnections unproven_ ABSL_GUARDED_BY(mutex_);
  std::map<UnprovenConnections::Number, Connection> connections_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, UnprovenConnections::Number> by_peer_ ABSL_GUARDED_BY(mutex_);
  int64_t refused_ ABSL_GUARDED_BY(mutex_) = 0;  // since it was last said
  absl::Duration say_at_ ABSL_GUARDED_BY(mutex_) = -absl::InfiniteDuration();

  std::thread thread_;  // last: it uses the others
};

}  // namespace evermoe
