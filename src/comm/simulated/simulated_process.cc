#include "comm/simulated/simulated_process.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"

namespace evermoe {

SimulatedPeer::State SimulatedPeer::state_at(absl::Duration now) const {
  if (state_ == State::kConnecting && turns_at() <= now) return State::kConnected;
  if (state_ == State::kLosing) return turns_at() <= now ? State::kLost : State::kConnected;
  return state_;
}

SimulatedProcess::SimulatedProcess(int64_t number, Rank own, View from_view, Machine on, int ranks,
                                   const SimulatedThreads& clock)
    : rank(own),
      machine(on),
      group{.number = number},
      since(from_view),
      started_since(from_view),
      clock_(clock),
      peers_(static_cast<size_t>(ranks)) {
  SimulatedPeer& self = peer(rank);
  self.state_ = State::kConnected;
  self.process = this;
  self.traffic().link = std::make_shared<SimulatedLink>();
}

absl::Status SimulatedProcess::why_not(Rank of) const {
  const SimulatedPeer& asked = peer(of);
  switch (asked.state_at(clock_.now())) {
    case State::kNobody: return PeerLost(of, absl::StrCat("nobody plays rank ", of.value));
    case State::kNamed:
    case State::kWanted:
    case State::kConnecting:
    case State::kConnected:
    case State::kLosing: return absl::OkStatus();
    case State::kLost: break;
  }
  return asked.state_ == State::kLosing ? asked.process->farewell : asked.known_traffic()->lost;
}

bool SimulatedProcess::waits_for(Rank of) const {
  const SimulatedPeer::Traffic* const traffic = peer(of).known_traffic();
  return (traffic != nullptr && traffic->inbox.posted_count() > 0) ||
         std::any_of(parked.begin(), parked.end(),
                     [of](const PendingOperation* send) { return send->peer == of; }) ||
         std::any_of(sending.begin(), sending.end(),
                     [of](const auto& flight) { return flight->large_send->peer == of; });
}

SimulatedPeer& SimulatedProcess::peer(Rank of) {
  CHECK(of.value >= 0 && static_cast<size_t>(of.value) < peers_.size())
      << "rank " << of << " of " << peers_.size();
  return peers_[static_cast<size_t>(of.value)];
}

const absl::Status& SimulatedProcess::revoked(const Tag& tag) const {
  static const absl::Status* const kOk = new absl::Status();
  if (tag.group == kServiceGroup) return *kOk;
  for (const Revocation& revocation : revocations_) {
    if (revocation.groups.contains(tag.group) && tag.view <= revocation.view)
      return revocation.reason;
  }
  return *kOk;
}

template <typename EndedBy>
void SimulatedProcess::end_parked(EndedBy ended_by) {
  std::erase_if(parked, [&](PendingOperation* send) {
    const absl::Status reason = ended_by(*send);
    if (!reason.ok()) send->finish(reason);
    return !reason.ok();
  });
}

void SimulatedProcess::revoke(GroupRange groups, View view, const absl::Status& reason) {
  group.touch();
  const auto known =
      std::find_if(revocations_.begin(), revocations_.end(),
                   [&](const Revocation& revocation) { return revocation.groups == groups; });
  if (known == revocations_.end()) {
    revocations_.push_back({groups, view, reason});
  } else if (known->view >= view) {
    return;
  } else {
    *known = {groups, view, reason};
  }
  for (const SimulatedPeer& peer : peers_) {
    if (peer.known_traffic() == nullptr) continue;
    peer.known_traffic()->inbox.fail_posted(groups, view, reason);
    peer.known_traffic()->inbox.drop_kept(groups, view);
  }
  end_parked([&](const PendingOperation& send) { return revoked(send.tag); });
  std::erase_if(sending, [&](const auto& flight) {
    const absl::Status& ended_by = revoked(flight->large_send->tag);
    if (ended_by.ok()) return false;
    std::exchange(flight->large_send, nullptr)->finish(ended_by);
    return true;
  });
}

void SimulatedProcess::receive(PendingOperation& receive) {
  if (const absl::Status& reason = revoked(receive.tag); !reason.ok())
    return receive.finish(reason);
  Inbox& inbox = peer(receive.peer).traffic().inbox;
  inbox.post(&receive);
  if (receive.finished) return;
  const absl::Status why = why_not(receive.peer);
  if (why.ok()) return;
  inbox.withdraw(&receive);
  receive.finish(why);
}

void SimulatedProcess::withdraw(PendingOperation& operation) {
  if (operation.kind == PendingOperation::Kind::kReceive) {
    peer(operation.peer).traffic().inbox.withdraw(&operation);
    return;
  }
  if (std::erase(parked, &operation) > 0) return;
  std::erase_if(sending, [&](const auto& flight) {
    if (flight->large_send != &operation) return false;
    flight->large_send = nullptr;
    return true;
  });
}

namespace {

void finish_large_send(const std::shared_ptr<SimulatedFlight>& flight) {
  if (flight->large_send == nullptr) return;
  std::erase(flight->from->sending, flight);
  std::exchange(flight->large_send, nullptr)->finish(absl::OkStatus());
  flight->from->group.touch();
}

}  // namespace

void SimulatedProcess::arrive(const std::shared_ptr<SimulatedFlight>& flight) {
  group.touch();
  SimulatedPeer& sender = peer(flight->from->rank);
  if (sender.link() != flight->link.get()) return;
  SimulatedPeer::Traffic& from = sender.traffic();
  const Tag& tag = flight->message->tag;
  if (tag.group == kServiceGroup) {
    from.held_service_messages.push_back(flight);
    if (from.held_service_messages.size() == 1) accept_service_message(*flight);
    return;
  }
  finish_large_send(flight);
  if (!revoked(tag).ok()) return;
  if (PendingOperation* const receive = from.inbox.match(tag); receive != nullptr) {
    deliver(flight->message->span(), *receive);
  } else {
    from.inbox.keep(std::move(flight->message));
  }
}

// Moves the first service message that is held into the box if there is room. One's own always find
// it.
void SimulatedProcess::accept_service_message(SimulatedFlight& first) {
  SimulatedPeer::Traffic& from = peer(first.from->rank).traffic();
  const size_t size = first.message->size;
  const bool fits =
      from.service_bytes == 0 || (from.service_bytes + size <= Transport::kServiceBytesMax &&
                                  service_bytes_ + size <= Transport::kServiceBytesOfAllMax);
  if (!fits && first.from != this) return;
  const auto flight = std::move(from.held_service_messages.front());
  from.held_service_messages.pop_front();
  finish_large_send(flight);
  from.service_bytes += size;
  service_bytes_ += size;
  service_messages_.push_back(
      {first.from->rank, flight->message->tag, size, std::move(flight->message->bytes)});
  has_service_message = true;
}

void SimulatedProcess::put_service_message(Rank from, Tag tag, std::span<const std::byte> bytes) {
  group.touch();
  ServiceMessage service_message{from, tag, bytes.size(),
                                 std::make_unique<std::byte[]>(bytes.size())};
  std::copy(bytes.begin(), bytes.end(), service_message.bytes.get());
  peer(from).traffic().service_bytes += bytes.size();
  service_bytes_ += bytes.size();
  service_messages_.push_back(std::move(service_message));
  has_service_message = true;
}

ServiceMessage SimulatedProcess::take_service_message() {
  ServiceMessage service_message = std::move(service_messages_.front());
  service_messages_.pop_front();
  SimulatedPeer::Traffic& from = peer(service_message.from).traffic();
  from.service_bytes -= service_message.size;
  service_bytes_ -= service_message.size;
  while (!from.held_service_messages.empty()) {
    const size_t before = from.held_service_messages.size();
    accept_service_message(*from.held_service_messages.front());
    if (from.held_service_messages.size() == before) break;
  }
  has_service_message = !service_messages_.empty();
  return service_message;
}

void SimulatedProcess::forget_held(const std::shared_ptr<SimulatedFlight>& flight) {
  if (is_alive()) std::erase(peer(flight->from->rank).traffic().held_service_messages, flight);
}

void SimulatedProcess::fail_operations(Rank with, const absl::Status& reason) {
  group.touch();
  if (SimulatedPeer::Traffic* const traffic = peer(with).known_traffic(); traffic != nullptr)
    traffic->inbox.fail_posted(std::nullopt, reason);
  end_parked(
      [&](const PendingOperation& send) { return send.peer == with ? reason : absl::OkStatus(); });
  std::erase_if(sending, [&](const auto& flight) {
    if (flight->large_send->peer != with) return false;
    std::exchange(flight->large_send, nullptr)->finish(reason);
    return true;
  });
}

void SimulatedProcess::lose(Rank lost, const absl::Status& why) {
  peer(lost).traffic().lost = why;
  peer(lost).state_ = State::kLost;
  fail_operations(lost, why);
}

void SimulatedProcess::lose_later(Rank lost, absl::Duration time) {
  peer(lost).state_ = State::kLosing;
  peer(lost).turns_at_ns_ = absl::ToInt64Nanoseconds(time);
}

void SimulatedProcess::keep_until_noticed(Rank lost) { peer(lost).state_ = State::kConnected; }

void SimulatedProcess::name_process(Rank of, SimulatedProcess& other, View younger) {
  SimulatedPeer& named = peer(of);
  named.process = &other;
  named.since = younger;
  named.state_ = State::kNamed;
}

void SimulatedProcess::want(Rank of) { peer(of).state_ = State::kWanted; }

bool SimulatedProcess::may_connect(Rank of) const {
  return state(of) == State::kNamed || state(of) == State::kWanted;
}

void SimulatedProcess::connect(Rank with, uint32_t connection, absl::Duration opens_at) {
  SimulatedPeer& other = peer(with);
  other.connection = connection;
  other.turns_at_ns_ = absl::ToInt64Nanoseconds(opens_at);
  other.state_ = State::kConnecting;
}

void SimulatedProcess::drop_former(Rank of) {
  SimulatedPeer& former = peer(of);
  former.state_ = State::kNobody;
  fail_operations(
      of, PeerLost(of, absl::StrCat("the former process of rank ", of.value, " is dropped")));
  former.connection = 0;
  if (SimulatedPeer::Traffic* const traffic = former.known_traffic(); traffic != nullptr) {
    traffic->link.reset();
    traffic->held_service_messages.clear();
  }
}

void SimulatedProcess::stop_for_good(const absl::Status& reason) {
  group.touch();
  stopped = reason;
  for (const SimulatedPeer& peer : peers_) {
    if (peer.known_traffic() != nullptr)
      peer.known_traffic()->inbox.fail_posted(std::nullopt, reason);
  }
  end_parked([&](const PendingOperation&) { return reason; });
  has_service_message = true;
}

void SimulatedProcess::clear() {
  peers_.clear();
  service_messages_.clear();
  service_bytes_ = 0;
  postponed.clear();
}

}  // namespace evermoe
