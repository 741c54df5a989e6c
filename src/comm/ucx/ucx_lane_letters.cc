// Letters are not announced by a receive: they are looked for in UCX's queue of unexpected messages,
// and left there while the box has no room for them. Large ones stay with the sender meanwhile; small
// ones, which UCX sends at once, take its memory here.
#include <cstring>

#include "base/error.h"
#include "comm/ucx/ucx_lane.h"

namespace evermoe {
namespace {

// More of one sender never waits, whoever waits for what.
constexpr size_t kForcedBytesMax = size_t{4} << 30;

constexpr uint64_t kLetterBits = uint64_t{kLetterGroup} << kPurposeBits;

}  // namespace

void UcxLane::take_letters() {
  holds_letters_ = false;
  ucp_tag_recv_info_t info;
  while (ucp_tag_message_h const found = next_letter(info)) launch_letter(found, info);
}

// Removes the oldest letter that may come from UCX's queue.
ucp_tag_message_h UcxLane::next_letter(ucp_tag_recv_info_t& info) {
  if (ucp_tag_probe_nb(worker_->get(), kLetterBits, kGroupMask, 0, &info) == nullptr) return nullptr;
  if (may_come(info)) return ucp_tag_probe_nb(worker_->get(), info.sender_tag, kRankMask | kGroupMask, 1, &info);
  holds_letters_ = true;
  for (int32_t i = 0; i < size(); ++i) {
    if (ucp_tag_message_h const found = next_letter_of(Rank(i), info)) return found;
  }
  return nullptr;
}

ucp_tag_message_h UcxLane::next_letter_of(Rank rank, ucp_tag_recv_info_t& info) {
  const uint64_t bits = ucx_tag(rank, Tag{View(0), kLetterGroup});
  constexpr uint64_t kMask = kRankMask | kGroupMask;
  if (ucp_tag_probe_nb(worker_->get(), bits, kMask, 0, &info) == nullptr || !may_come(info)) return nullptr;
  return ucp_tag_probe_nb(worker_->get(), bits, kMask, 1, &info);
}

// Only processes that have been met send letters: others are those of the past.
bool UcxLane::is_worth_reading(const ucp_tag_recv_info_t& info) const {
  const Rank from = rank_in(info.sender_tag);
  return from.value < size() && seats_[static_cast<size_t>(from.value)].peer && info.length >= sizeof(LetterEnd);
}

bool UcxLane::may_come(const ucp_tag_recv_info_t& info) const {
  if (!is_worth_reading(info)) return true;  // to be thrown away
  const Rank from = rank_in(info.sender_tag);
  const size_t bytes = info.length - sizeof(LetterEnd);
  return letters_.has_room(from, bytes) || (send_waiters_ > 0 && letters_.bytes_from(from) + bytes <= kForcedBytesMax);
}

void UcxLane::launch_letter(ucp_tag_message_h found, const ucp_tag_recv_info_t& info) {
  const Rank from = rank_in(info.sender_tag);
  if (!is_worth_reading(info)) {
    return launch_receive(new_flight(Flight::Role::kDiscard, nullptr, Tag{}, info.length), found);
  }
  const Tag tag{View(0), kLetterGroup, purpose_in(info.sender_tag)};
  UcxPeer& peer = *seat(from).peer;
  ArrivingLetter& arriving = peer.arriving.emplace_back();
  arriving.letter = letters_.expect(from, tag, info.length - sizeof(LetterEnd), sizeof(LetterEnd));
  Flight& flight = new_flight(Flight::Role::kLetter, &peer, tag, info.length);
  flight.letter = &arriving;
  launch_receive(flight, found);
}

// Letters of one sender come in the order sent, though a large one takes longer than those behind it.
// One of a former process that comes late is thrown away.
void UcxLane::letter_came(Flight& flight, bool is_ok) {
  ArrivingLetter& come = *flight.letter;
  come.is_complete = true;
  if (is_ok) {
    LetterEnd end;
    std::memcpy(&end, come.letter.bytes.get() + come.letter.size, sizeof(end));
    come.is_good = end.sender == flight.peer->process.number;
    come.letter.tag.view = View(end.view);
  }
  std::list<ArrivingLetter>& arriving = flight.peer->arriving;
  for (; !arriving.empty() && arriving.front().is_complete; arriving.pop_front()) {
    Letter& letter = arriving.front().letter;
    if (arriving.front().is_good) {
      letters_.put(std::move(letter));
    } else {
      letters_.abandon(letter);
    }
  }
}

std::optional<Letter> UcxLane::take_letter() {
  std::optional<Letter> letter = letters_.take();
  if (!letter || !holds_letters_) return letter;
  take_letters();
  sweep();
  leadership_.wake_leader();
  return letter;
}

absl::StatusOr<Letter> UcxLane::receive_letter(absl::Duration timeout) {
  const Deadline deadline(timeout);
  PendingOperation arrival(PendingOperation::Kind::kReceive, rank_, Tag{View(0), kLetterGroup});
  Lock lock(mutex_);
  std::optional<Letter> letter = take_letter();
  if (!letter && !closed_ && deadline.passed() && !leadership_.has_leader()) {
    drive();
    letter = take_letter();
  }
  if (letter || closed_) {
    arrival.finish(absl::OkStatus());
  } else {
    letters_.wake(&arrival);
    block(arrival, deadline, lock);
    letters_.wake(nullptr);
    if (!arrival.finished) arrival.finish(no_letter_within(timeout));
    letter = take_letter();
  }
  if (closed_) return Cancelled("the transport is closed");
  RETURN_IF_ERROR(arrival.status);
  return *std::move(letter);
}

}  // namespace evermoe
