// Moves large messages while no thread of the process waits: one thread per transport, asleep in
// the kernel as long as nothing large is under way or somebody waits.
//
// Who waits drives progress itself (progress_driver.h), because a hop through another thread would
// cost small messages a switch. But a message larger than what the kernel buffers would otherwise
// stand still while both ends compute. So a channel that has something large under way tells this
// thread, which looks after the channel as soon as nobody has waited there for some milliseconds,
// and lets go of it as soon as somebody does.
//
// What is delivered where does not depend on who drives: a receive names its message.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "comm/channel/pending_operation.h"
#include "comm/transport/socket.h"

namespace evermoe {

// Receives of fewer bytes are left to those who wait for them: the kernel has room for such
// messages.
inline constexpr size_t kLargeMessageBytes = size_t{128} << 10;

class ProgressThread {
 public:
  // What the thread waits for before it looks after a channel again: an event, a time, or to be
  // told.
  struct Next {
    int event_fd = -1;
    absl::Duration look_again = absl::InfiniteDuration();
  };
  using Drive = std::function<Next()>;

  ~ProgressThread() { stop(); }

  // `drives`, one for each channel, are called by the thread only, until stop() returns.
  absl::Status start(std::vector<Drive> drives);

  // Have all channels looked after now. From any thread, also while holding a channel's mutex.
  void tell();

  // Returns when the thread has ended. Not while holding a channel's mutex.
  void stop();

 private:
  void run();

  FileDescriptor told_;
  std::vector<Drive> drives_;
  std::atomic<bool> stopped_ = false;
  Mutex stopping_;
  std::thread thread_ ABSL_GUARDED_BY(stopping_);
};

// What one channel knows of the thread that drives it in the background. Guarded by the channel's
// mutex.
class BackgroundProgress {
 public:
  explicit BackgroundProgress(ProgressThread& thread) : thread_(thread) {}

  // To be called for every operation with another process once it has been started: the thread is
  // told if it is a large one that has not finished, or one that waits for a connection.
  void add(PendingOperation& operation, bool is_parked);

  // A thread begins to wait on the channel.
  void somebody_waits() { ++waits_; }

  // What the channel's Drive begins with: true if the channel is to be driven now, else what to
  // wait for is in `next`.
  bool begins(bool somebody_leads, ProgressThread::Next& next);

  // The thread asks for the channel's Next again.
  void tell() { thread_.tell(); }
  // For channels whose events do not tell everything: the thread looks again if it drives the
  // channel.
  void wake_driver() {
    if (state_ == State::kDrives) thread_.tell();
  }

 private:
  enum class State {
    kSleeps,  // until it is told
    kLooks,   // now and then, whether it is needed
    kDrives,
  };

  ProgressThread& thread_;
  State state_ = State::kSleeps;
  int large_ = 0;  // large operations that have not finished
  uint64_t waits_ = 0;
  uint64_t waits_seen_ = 0;  // by the thread's last look
  int idle_looks_ = 0;       // in a row, at which nothing large was under way
  absl::Duration pause_;     // between looks
};

}  // namespace evermoe
