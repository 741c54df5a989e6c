// A worker's end of the line to its supervisor, with the thread that says "alive".
#pragma once

#include <thread>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "cluster/worker_report.h"

namespace evermoe {

// Threads: send() from any. A supervisor that is gone or does not read is ignored: the worker dies
// with it by other means, and training must not wait for a reader.
class ReportChannel {
 public:
  // fd -1: says nothing. The channel owns the descriptor.
  ReportChannel(int fd, Rank rank);
  ~ReportChannel();
  ReportChannel(const ReportChannel&) = delete;
  ReportChannel& operator=(const ReportChannel&) = delete;

  void send(WorkerReport report);

 private:
  void say_alive();

  const int fd_;
  const Rank rank_;
  absl::Mutex mutex_;
  absl::Notification stopping_;
  std::thread alive_;
};

}  // namespace evermoe
