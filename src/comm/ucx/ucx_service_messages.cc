#include "comm/ucx/ucx_service_messages.h"

#include <algorithm>

namespace evermoe {
namespace {

// More of one sender never waits, whoever waits for what.
constexpr size_t kForcedBytesMax = size_t{4} << 30;

constexpr uint64_t kServiceBits = uint64_t{kServiceGroup} << kPurposeBits;
constexpr uint64_t kOfOneSender = kRankMask | kGroupMask;

}  // namespace

void UcxServiceMessages::take_arrived(bool somebody_sends) {
  has_left_some_ = false;
  ucp_tag_recv_info_t info;
  while (ucp_tag_message_h const found = next(info, somebody_sends)) receive(found, info);
}

// Removes the oldest service message that may come from UCX's queue.
ucp_tag_message_h UcxServiceMessages::next(ucp_tag_recv_info_t& info, bool somebody_sends) {
  if (ucp_tag_probe_nb(worker_.get(), kServiceBits, kGroupMask, 0, &info) == nullptr)
    return nullptr;
  if (may_come(info, somebody_sends))
    return ucp_tag_probe_nb(worker_.get(), info.sender_tag, kOfOneSender, 1, &info);
  has_left_some_ = true;
  for (int32_t i = 0; i < peers_.size(); ++i) {
    if (ucp_tag_message_h const found = next_of(Rank(i), info, somebody_sends)) return found;
  }
  return nullptr;
}

ucp_tag_message_h UcxServiceMessages::next_of(Rank rank, ucp_tag_recv_info_t& info,
                                              bool somebody_sends) {
  const uint64_t bits = ucx_tag(rank, Tag{View(0), kServiceGroup});
  if (ucp_tag_probe_nb(worker_.get(), bits, kOfOneSender, 0, &info) == nullptr ||
      !may_come(info, somebody_sends))
    return nullptr;
  return ucp_tag_probe_nb(worker_.get(), bits, kOfOneSender, 1, &info);
}

void UcxServiceMessages::take_all_of(Rank from) {
  ucp_tag_recv_info_t info;
  const uint64_t bits = ucx_tag(from, Tag{View(0), kServiceGroup});
  while (ucp_tag_message_h const found =
             ucp_tag_probe_nb(worker_.get(), bits, kOfOneSender, 1, &info))
    receive(found, info);
}

// Only of processes that have greeted, which they do before they send anything else, and with the
// pass of their connection: others are those of the past, or strangers.
bool UcxServiceMessages::is_worth_reading(const ucp_tag_recv_info_t& info) const {
  const UcxPeer* const peer = peers_.find(rank_in(info.sender_tag));
  return peer != nullptr && peer->has_greeted && info.length >= sizeof(UcxMessageEnd) &&
         info.sender_tag == passed_tag(peer->rank, Tag{View(0), kServiceGroup}, peer->in.tag);
}

bool UcxServiceMessages::may_come(const ucp_tag_recv_info_t& info, bool somebody_sends) const {
  if (!is_worth_reading(info)) return true;  // to be thrown away
  const Rank from = rank_in(info.sender_tag);
  const size_t bytes = info.length - sizeof(UcxMessageEnd);
  return box_.has_room(from, bytes) ||
         (somebody_sends && box_.bytes_from(from) + bytes <= kForcedBytesMax);
}

void UcxServiceMessages::receive(ucp_tag_message_h found, const ucp_tag_recv_info_t& info) {
  if (!is_worth_reading(info)) return flights_.discard(found, info.length);
  const Rank from = rank_in(info.sender_tag);
  UcxPeer& peer = *peers_.find(from);
  ArrivingServiceMessage& arriving = peer.arriving.emplace_back();
  arriving.service_message =
      box_.expect(from, Tag{View(0), kServiceGroup}, info.length - sizeof(UcxMessageEnd));
  flights_.receive_service_message(
      *this, peer, found, arriving,
      {arriving.service_message.bytes.get(), arriving.service_message.size});
}

// Service messages of one sender come in the order sent, though a large one takes longer than those
// behind it. One of a former process that comes late is thrown away.
void UcxServiceMessages::landed(Flight& flight, ucs_status_t status) {
  ArrivingServiceMessage& come = *flight.service_message;
  come.is_complete = true;
  if (status == UCS_OK && flight.bytes.are_complete()) {
    const UcxMessageEnd& end = flight.bytes.end();
    come.is_good = UcxFlights::is_of_peer(flight) && end.is_withdrawn == 0;
    come.service_message.tag.view = View(end.view);
    come.service_message.tag.purpose = end.purpose;
  }
  std::list<ArrivingServiceMessage>& arriving = flight.peer->arriving;
  for (; !arriving.empty() && arriving.front().is_complete; arriving.pop_front()) {
    ServiceMessage& service_message = arriving.front().service_message;
    if (arriving.front().is_good) {
      box_.put(std::move(service_message));
    } else {
      box_.abandon(service_message);
    }
  }
}

}  // namespace evermoe
