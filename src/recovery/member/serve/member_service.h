// The service thread of a member: follows the controller, answers messages, takes snapshots and
// keeps copies, until the job is over.
//
// A message of an older view is dropped: who sent it has asked, or will ask, again. One of a view
// that this member is about to open waits for that, if there is room (next_view_messages.h).
#pragma once

#include <atomic>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "comm/transport/transport.h"
#include "env/clock.h"
#include "recovery/member/serve/link_probes.h"
#include "recovery/member/serve/message_answers.h"
#include "recovery/member/serve/next_view_messages.h"
#include "recovery/member/serve/order_follower.h"

namespace evermoe {

// Threads: service thread only, but time().
class MemberService {
 public:
  struct Dependencies {
    Transport& transport;
    Clock& clock;
    MemberViews& views;
    SnapshotCopies& copies;
    OrderFollower& orders;
    MessageAnswers& answers;
    LinkProbes& probes;
  };
  explicit MemberService(Dependencies dependencies) : in_(std::move(dependencies)) {}

  // Ok when the job is over; an error if this process has to end.
  absl::Status run();
  // A view has just been opened: what waited for it is answered.
  void on_opened();

  // Processor time of the service thread so far: what copying costs. Any thread.
  absl::Duration time() const { return absl::Nanoseconds(nanoseconds_.load()); }

 private:
  void handle(ServiceMessage message);
  void answer(ServiceMessage message, View view);
  // Ends this process for what no member sends.
  void judge(const absl::Status& status, Rank from);
  // This process has to end: the training thread comes out of whatever it waits for.
  void end(const absl::Status& error);

  const Dependencies in_;
  NextViewMessages of_next_view_;
  std::atomic<int64_t> nanoseconds_ = 0;
};

}  // namespace evermoe
