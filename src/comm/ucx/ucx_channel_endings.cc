// How a channel ends what is under way: revocations, goodbyes, and everything at last.
#include <poll.h>

#include <algorithm>

#include "base/error.h"
#include "comm/ucx/ucx_channel.h"

namespace evermoe {
namespace {

// Recent views whose late messages revoke() looks for.
constexpr uint32_t kDrainedViews = 8;

}  // namespace

void UcxChannel::revoke(GroupRange groups, View view, const absl::Status& reason) {
  const Lock lock(mutex_);
  if (!revocations_.add(groups, view, reason)) return;
  from_self_.fail_posted(groups, view, reason);
  from_self_.drop_kept(groups, view);
  for (Flight& flight : flights_) {
    if (flight.operation == nullptr || !groups.contains(flight.tag.group) || flight.tag.view > view)
      continue;
    PendingOperation& operation = *flight.operation;
    let_go(operation);
    operation.finish(reason);
  }
  worker_->progress();
  for_each_block(groups, [&](uint16_t first, uint64_t group_mask) {
    for (uint32_t back = 0; back < kDrainedViews && back <= view.value; ++back) {
      discard_messages(ucx_tag(Rank(0), Tag{View(view.value - back), first}),
                       kViewMask | group_mask);
    }
  });
  sweep();
  progress_driver_.wake_leader();
}

void UcxChannel::discard_messages(uint64_t tag, uint64_t mask) {
  ucp_tag_recv_info_t info;
  while (true) {
    ucp_tag_message_h const found = ucp_tag_probe_nb(worker_->get(), tag, mask, 1, &info);
    if (found == nullptr) return;
    launch_receive(new_flight(Flight::Role::kDiscard, nullptr, Tag{}, info.length), found);
  }
}

void UcxChannel::say_goodbye() {
  const Lock lock(mutex_);
  if (std::exchange(closed_, true)) return;
  has_news_of_meeting_ = true;
  for (const Seat& seat : seats_) {
    if (seat.peer && seat.peer->endpoint != nullptr && seat.peer->lost.ok())
      launch_own_send(*seat.peer, kGoodbye);
  }
}

// Whether closing now could take a message or our goodbye away from a peer. Who answers no service
// messages need not know at once that none will come; it must not be waited for.
bool UcxChannel::is_unheard() const {
  const bool sends = std::any_of(flights_.begin(), flights_.end(), [](const Flight& flight) {
    return flight.role == Flight::Role::kSend && flight.request != nullptr &&
           flight.peer->endpoint != nullptr;
  });
  return sends || std::any_of(seats_.begin(), seats_.end(), [this](const Seat& seat) {
           const UcxPeer* const peer = seat.peer.get();
           return peer != nullptr && peer->endpoint != nullptr && peer->lost.ok() &&
                  peer->has_greeted && !peer->knows_we_leave &&
                  (traffic_ == Traffic::kMessages || peer->is_sent_to);
         });
}

bool UcxChannel::flush(const Deadline& deadline) {
  const Lock lock(mutex_);
  drive();
  while (is_unheard()) {
    if (deadline.passed()) return false;
    pollfd watched{worker_->event_fd(), POLLIN, 0};
    const auto armed = worker_->arm();
    if (armed.ok() && *armed) ::poll(&watched, 1, deadline.left_ms());
    if (!drive()) ::poll(nullptr, 0, 1);  // for the reason given in work()
  }
  return true;
}

void UcxChannel::finish() {
  const Lock lock(mutex_);
  const absl::Status reason = Cancelled("the transport is closed");
  for (const Seat& seat : seats_) {
    if (seat.peer && seat.peer->lost.ok()) lose(*seat.peer, reason);
  }
  for (Flight& flight : flights_) {
    if (flight.operation != nullptr) std::exchange(flight.operation, nullptr)->finish(reason);
  }
  from_self_.fail_posted(std::nullopt, reason);
  service_messages_.fail(reason);
  drive();
  progress_driver_.wake_leader();
}

}  // namespace evermoe
