#include "control/launch/signal_inbox.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace evermoe {

absl::StatusOr<std::unique_ptr<SignalInbox>> SignalInbox::open() {
  sigset_t wanted;
  sigset_t before;
  ::sigemptyset(&wanted);
  for (const int number : {SIGINT, SIGTERM, SIGUSR1}) ::sigaddset(&wanted, number);
  // A blocked signal would reach us even where it is ignored.
  struct sigaction hangup = {};
  ::sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) ::sigaddset(&wanted, SIGHUP);
  const int fd = ::signalfd(-1, &wanted, SFD_NONBLOCK | SFD_CLOEXEC);
  if (fd < 0) return Internal(std::string("signalfd: ") + std::strerror(errno));
  ::pthread_sigmask(SIG_BLOCK, &wanted, &before);
  struct sigaction ignore = {};
  struct sigaction pipe = {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &pipe);
  return std::unique_ptr<SignalInbox>(new SignalInbox(fd, before, pipe));
}

SignalInbox::~SignalInbox() {
  take();  // What came too late to be obeyed must not kill the process while it cleans up.
  ::close(fd_);
  ::sigaction(SIGPIPE, &pipe_, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
}

std::vector<int> SignalInbox::take() {
  std::vector<int> numbers;
  signalfd_siginfo info;
  while (::read(fd_, &info, sizeof(info)) == sizeof(info))
    numbers.push_back(static_cast<int>(info.ssi_signo));
  return numbers;
}

StopRequest::Meaning StopRequest::on_signal(absl::Duration now) {
  if (!first_) {
    first_ = now;
    return Meaning::kDrain;
  }
  return now - *first_ <= kOneWish ? Meaning::kRepeat : Meaning::kQuit;
}

}  // namespace evermoe
