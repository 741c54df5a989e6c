// Service messages are not announced by a receive: they are looked for in UCX's queue of unexpected
// messages, and left there while the box has no room for them. Large ones stay with the sender
// meanwhile; small ones, which UCX sends at once, take its memory here.
#include <cstring>

#include "base/error.h"
#include "comm/ucx/ucx_channel.h"

namespace evermoe {
namespace {

// More of one sender never waits, whoever waits for what.
constexpr size_t kForcedBytesMax = size_t{4} << 30;

constexpr uint64_t kServiceBits = uint64_t{kServiceGroup} << kPurposeBits;

}  // namespace

void UcxChannel::take_service_messages() {
  holds_service_messages_ = false;
  ucp_tag_recv_info_t info;
  while (ucp_tag_message_h const found = next_service_message(info))
    launch_service_message(found, info);
}

// Removes the oldest service message that may come from UCX's queue.
ucp_tag_message_h UcxChannel::next_service_message(ucp_tag_recv_info_t& info) {
  if (ucp_tag_probe_nb(worker_->get(), kServiceBits, kGroupMask, 0, &info) == nullptr)
    return nullptr;
  if (may_come(info))
    return ucp_tag_probe_nb(worker_->get(), info.sender_tag, kRankMask | kGroupMask, 1, &info);
  holds_service_messages_ = true;
  for (int32_t i = 0; i < size(); ++i) {
    if (ucp_tag_message_h const found = next_service_message_of(Rank(i), info)) return found;
  }
  return nullptr;
}

ucp_tag_message_h UcxChannel::next_service_message_of(Rank rank, ucp_tag_recv_info_t& info) {
  const uint64_t bits = ucx_tag(rank, Tag{View(0), kServiceGroup});
  constexpr uint64_t kMask = kRankMask | kGroupMask;
  if (ucp_tag_probe_nb(worker_->get(), bits, kMask, 0, &info) == nullptr || !may_come(info))
    return nullptr;
  return ucp_tag_probe_nb(worker_->get(), bits, kMask, 1, &info);
}

// Only processes that have been met send service messages: others are those of the past.
bool UcxChannel::is_worth_reading(const ucp_tag_recv_info_t& info) const {
  const Rank from = rank_in(info.sender_tag);
  return from.value < size() && seats_[static_cast<size_t>(from.value)].peer &&
         info.length >= sizeof(ServiceMessageEnd);
}

bool UcxChannel::may_come(const ucp_tag_recv_info_t& info) const {
  if (!is_worth_reading(info)) return true;  // to be thrown away
  const Rank from = rank_in(info.sender_tag);
  const size_t bytes = info.length - sizeof(ServiceMessageEnd);
  return service_messages_.has_room(from, bytes) ||
         (send_waiters_ > 0 && service_messages_.bytes_from(from) + bytes <= kForcedBytesMax);
}

void UcxChannel::launch_service_message(ucp_tag_message_h found, const ucp_tag_recv_info_t& info) {
  const Rank from = rank_in(info.sender_tag);
  if (!is_worth_reading(info)) {
    return launch_receive(new_flight(Flight::Role::kDiscard, nullptr, Tag{}, info.length), found);
  }
  const Tag tag{View(0), kServiceGroup, purpose_in(info.sender_tag)};
  UcxPeer& peer = *seat(from).peer;
  ArrivingServiceMessage& arriving = peer.arriving.emplace_back();
  arriving.service_message = service_messages_.expect(
      from, tag, info.length - sizeof(ServiceMessageEnd), sizeof(ServiceMessageEnd));
  Flight& flight = new_flight(Flight::Role::kService, &peer, tag, info.length);
  flight.service_message = &arriving;
  launch_receive(flight, found);
}

// Service messages of one sender come in the order sent, though a large one takes longer than those
// behind it. One of a former process that comes late is thrown away.
void UcxChannel::service_message_came(Flight& flight, bool is_ok) {
  ArrivingServiceMessage& come = *flight.service_message;
  come.is_complete = true;
  if (is_ok) {
    ServiceMessageEnd end;
    std::memcpy(&end, come.service_message.bytes.get() + come.service_message.size, sizeof(end));
    come.is_good = end.sender == flight.peer->process.number;
    come.service_message.tag.view = View(end.view);
  }
  std::list<ArrivingServiceMessage>& arriving = flight.peer->arriving;
  for (; !arriving.empty() && arriving.front().is_complete; arriving.pop_front()) {
    ServiceMessage& service_message = arriving.front().service_message;
    if (arriving.front().is_good) {
      service_messages_.put(std::move(service_message));
    } else {
      service_messages_.abandon(service_message);
    }
  }
}

std::optional<ServiceMessage> UcxChannel::take_service_message() {
  std::optional<ServiceMessage> service_message = service_messages_.take();
  if (!service_message || !holds_service_messages_) return service_message;
  take_service_messages();
  sweep();
  progress_driver_.wake_leader();
  return service_message;
}

absl::StatusOr<ServiceMessage> UcxChannel::receive_service_message(absl::Duration timeout) {
  const Deadline deadline(timeout);
  PendingOperation arrival(PendingOperation::Kind::kReceive, rank_, Tag{View(0), kServiceGroup});
  Lock lock(mutex_);
  std::optional<ServiceMessage> service_message = take_service_message();
  if (!service_message && !closed_ && deadline.passed() && !progress_driver_.has_leader()) {
    drive();
    service_message = take_service_message();
  }
  if (service_message || closed_) {
    arrival.finish(absl::OkStatus());
  } else {
    service_messages_.wake(&arrival);
    block(arrival, deadline, lock);
    service_messages_.wake(nullptr);
    if (!arrival.finished) arrival.finish(no_service_message_within(timeout));
    service_message = take_service_message();
  }
  if (closed_) return Cancelled("the transport is closed");
  RETURN_IF_ERROR(arrival.status);
  return *std::move(service_message);
}

}  // namespace evermoe
