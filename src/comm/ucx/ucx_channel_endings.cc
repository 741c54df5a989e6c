// How a channel ends what is under way: with one process, of views that are over, and everything at
// last.
#include <poll.h>

#include "base/error.h"
#include "base/log.h"
#include "comm/ucx/ucx_channel.h"
#include "comm/ucx/ucx_tag.h"

namespace evermoe {
namespace {

// After cutting a connection its messages end within about a millisecond of progress.
constexpr absl::Duration kCutMax = absl::Seconds(2);

// Recent views whose late messages revoke() looks for.
constexpr uint32_t kDrainedViews = 8;

}  // namespace

void UcxChannel::drop(Rank rank, const absl::Status& reason) {
  UcxPeers::Place& left = peers_.place(rank);
  left.empty = reason;
  if (!left.peer) return;
  drive();
  if (arriving_service_messages_) arriving_service_messages_->take_all_of(rank);
  operations_.fail(*left.peer, reason);
  peers_.turn_away(rank, reason);
  if (!arriving_service_messages_) {
    for_each_block(kAllGroups, [&](uint16_t first, uint64_t group_mask) {
      mutex_.assert_held();
      flights_.discard_all(ucx_tag(rank, Tag{View(0), first}), kRankMask | group_mask);
    });
  }
  sweep();
  progress_driver_.wake_leader();
}

void UcxChannel::end_views(GroupRange groups, View view, const absl::Status& reason) {
  operations_.revoke(groups, view, reason);
  worker_->progress();
  for_each_block(groups, [&](uint16_t first, uint64_t group_mask) {
    mutex_.assert_held();
    for (uint32_t back = 0; back < kDrainedViews && back <= view.value; ++back) {
      flights_.discard_all(ucx_tag(Rank(0), Tag{View(view.value - back), first}),
                           kViewMask | group_mask);
    }
  });
  sweep();
  progress_driver_.wake_leader();
}

void UcxChannel::say_goodbye() {
  const MutexLock lock(mutex_);
  if (std::exchange(closed_, true)) return;
  peers_.say_goodbye();
}

// Who answers no service messages need not know at once that none will come; it must not be waited
// for.
bool UcxChannel::is_unheard() const {
  return flights_.has_sends() || peers_.has_unheard_goodbye(service_messages_.has_value());
}

bool UcxChannel::flush(const Deadline& deadline) {
  const MutexLock lock(mutex_);
  drive();
  while (is_unheard()) {
    if (deadline.passed()) return false;
    pollfd watched{worker_->event_fd(), POLLIN, 0};
    const auto armed = worker_->arm();
    if (armed.ok() && *armed) ::poll(&watched, 1, deadline.left_ms());
    if (!has_driven()) ::poll(nullptr, 0, 1);  // for the reason given in work()
  }
  return true;
}

void UcxChannel::finish() {
  const MutexLock lock(mutex_);
  const absl::Status reason = Cancelled("the transport is closed");
  peers_.lose_all(reason);
  operations_.fail_all(reason);
  end_rest(reason);
  drive();
  progress_driver_.wake_leader();
}

UcxChannel::~UcxChannel() {
  const MutexLock lock(mutex_);
  peers_.lose_all(Cancelled("the transport was destroyed"));
  peers_.cut_all();
  worker_->progress();
  flights_.discard_all(0, 0);
  sweep();
  const Deadline deadline(kCutMax);
  while (!flights_.empty() && !deadline.passed()) worker_->progress(), sweep();
  if (!flights_.empty()) log_error("UCX has not given back every message of a closed transport");
}

}  // namespace evermoe
