// Messages and collective calls of a communicator that are under way while their caller computes.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "comm/idle_work.h"
#include "comm/transport/transport.h"

namespace evermoe {

// A point-to-point message in flight; wait() or destruction lets go of its buffer. Not to be waited
// for after the end of its communicator.
class PendingMessage {
 public:
  PendingMessage() = default;
  PendingMessage(PendingMessage&&) noexcept = default;
  PendingMessage& operator=(PendingMessage&& other) noexcept;
  ~PendingMessage();  // a message never waited for is withdrawn

  // True if wait() would return at once. Never blocks.
  bool is_done() { return !operation_ || transport_->done(*operation_); }
  // Ok at once for a default-constructed one. Fails as communicator.h says.
  absl::Status wait();

 private:
  friend class GroupMessages;
  Transport* transport_ = nullptr;
  std::unique_ptr<TransportOperation> operation_;
  absl::Duration deadline_ = absl::ZeroDuration();
  const IdleWork* idle_work_ = nullptr;
};

// In the order of the list, until one fails.
absl::Status wait_all(std::vector<PendingMessage>& messages);
bool are_done(std::vector<PendingMessage>& messages);

// A collective call that has been started: its messages move while its caller computes (those of a
// reduction within a window, Communicator::kPendingWindowBytes, that moves on with advance()). Its
// buffers belong to it until wait() has returned or it is destroyed. To be used by the thread that
// uses the communicator, and not after the communicator's end or restart(), but for being
// destroyed.
class PendingCollective {
 public:
  // What is left of a call, piece by piece.
  class Work {
   public:
    virtual ~Work() = default;
    virtual bool is_complete() const = 0;
    // Not to be called when it is complete, and not again after an error.
    virtual bool can_go_on() = 0;  // without waiting
    virtual absl::Status go_on() = 0;
  };

  PendingCollective() = default;
  explicit PendingCollective(std::unique_ptr<Work> work) : work_(std::move(work)) {}
  PendingCollective(PendingCollective&&) noexcept = default;
  PendingCollective& operator=(PendingCollective&&) noexcept = default;
  // One never waited for is withdrawn. What its buffers then hold is undefined, and members who
  // wait for it fail; those who have withdrawn it, too, may go on with other calls.
  ~PendingCollective() = default;

  // Does what can be done without waiting: adds what has come and lets more come. True if wait()
  // would return at once.
  bool advance();
  // Ok at once for a default-constructed one and for one that has been waited for. Fails as
  // communicator.h says.
  absl::Status wait();

 private:
  std::unique_ptr<Work> work_;  // null: nothing is under way
  absl::Status status_;         // of what has been done
};

}  // namespace evermoe
