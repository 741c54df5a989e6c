#include "cli/report_channel.h"

#include <signal.h>
#include <unistd.h>

namespace evermoe {
namespace {

constexpr absl::Duration kAlivePeriod = absl::Milliseconds(500);

}  // namespace

ReportChannel::ReportChannel(int fd, Rank rank) : fd_(fd), rank_(rank) {
  if (fd_ < 0) return;
  signal(SIGPIPE, SIG_IGN);
  alive_ = std::thread([this] { say_alive(); });
}

ReportChannel::~ReportChannel() {
  if (fd_ < 0) return;
  stopping_.Notify();
  alive_.join();
  close(fd_);
}

void ReportChannel::send(WorkerReport report) {
  if (fd_ < 0) return;
  report.rank = rank_;
  const std::string line = encode(report);
  const absl::MutexLock lock(&mutex_);
  for (size_t written = 0; written < line.size();) {
    const ssize_t n = write(fd_, line.data() + written, line.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    written += static_cast<size_t>(n);
  }
}

void ReportChannel::say_alive() {
  do {
    send({.kind = WorkerReport::Kind::kAlive});
  } while (!stopping_.WaitForNotificationWithTimeout(kAlivePeriod));
}

}  // namespace evermoe
