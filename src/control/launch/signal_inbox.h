// Signals that ask this process to stop, as something to poll for.
#pragma once

#include <signal.h>

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace evermoe {

// While it lives, SIGINT, SIGTERM, SIGUSR1 and SIGHUP wait here instead of ending the process, and
// SIGPIPE is ignored, because a job must not die with the reader of its progress. SIGHUP stays
// ignored where it is (nohup); SIGINT does not, because a shell ignores it for whatever a script
// starts with `&`, and somebody who sends it to this very process wants it to stop. Create it
// before other threads: they inherit the mask.
class SignalInbox {
 public:
  static absl::StatusOr<std::unique_ptr<SignalInbox>> open();
  ~SignalInbox();
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;

  int fd() const { return fd_; }
  std::vector<int> take();  // never blocks

 private:
  SignalInbox(int fd, const sigset_t& mask, const struct sigaction& pipe)
      : fd_(fd), mask_(mask), pipe_(pipe) {}
  const int fd_;
  const sigset_t mask_;  // as it was before
  const struct sigaction pipe_;
};

// What the signals that a process has taken ask of it. Pure.
class StopRequest {
 public:
  // timeout(1), launchers and shells signal a process and then its whole group: two signals, one
  // wish. A person who wants something else presses the key later.
  static constexpr absl::Duration kOneWish = absl::Seconds(1);
  enum class Meaning {
    kDrain,   // the first signal: finish the step, save, end
    kRepeat,  // at most kOneWish after the first: nothing new
    kQuit,    // a later one: end at once
  };
  // `now`: when the signal was taken; never earlier than the call before.
  Meaning on_signal(absl::Duration now);
  bool is_drain_wanted() const { return first_.has_value(); }

 private:
  std::optional<absl::Duration> first_;
};

}  // namespace evermoe
