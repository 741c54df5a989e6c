#include "comm/simulated/simulated_process.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"

namespace evermoe {

using State = SimulatedPeer::State;

SimulatedProcess::SimulatedProcess(int64_t number, Rank own, View from_view, int ranks)
    : rank(own),
      group{.number = number},
      since(from_view),
      started_since(from_view),
      peers_(static_cast<size_t>(ranks)) {
  for (int32_t i = 0; i < ranks; ++i) {
    peer(Rank(i)).why = PeerLost(Rank(i), absl::StrCat("rank ", i, " has not been met"));
  }
  SimulatedPeer& self = peer(rank);
  self.set_state(State::kConnected, absl::OkStatus());
  self.process = this;
  self.link = std::make_shared<SimulatedLink>();
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

void SimulatedProcess::revoke(GroupRange groups, View view, const absl::Status& reason) {
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
  for (SimulatedPeer& peer : peers_) {
    peer.inbox.fail_posted(groups, view, reason);
    peer.inbox.drop_kept(groups, view);
  }
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
  SimulatedPeer& from = peer(receive.peer);
  from.inbox.post(&receive);
  if (receive.finished || from.state == State::kConnected) return;
  from.inbox.withdraw(&receive);
  receive.finish(from.why);
}

void SimulatedProcess::withdraw(PendingOperation& operation) {
  if (operation.kind == PendingOperation::Kind::kReceive) {
    peer(operation.peer).inbox.withdraw(&operation);
    return;
  }
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
}

}  // namespace

void SimulatedProcess::arrive(const std::shared_ptr<SimulatedFlight>& flight) {
  SimulatedPeer& from = peer(flight->from->rank);
  if (from.link != flight->link) return;
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
  SimulatedPeer& from = peer(first.from->rank);
  const size_t size = first.message->size;
  const bool fits =
      from.service_bytes == 0 || from.service_bytes + size <= Transport::kServiceBytesMax;
  if (!fits && first.from != this) return;
  const auto flight = std::move(from.held_service_messages.front());
  from.held_service_messages.pop_front();
  finish_large_send(flight);
  from.service_bytes += size;
  service_messages_.push_back(
      {first.from->rank, flight->message->tag, size, std::move(flight->message->bytes)});
  has_service_message = true;
}

void SimulatedProcess::put_service_message(Rank from, Tag tag, std::span<const std::byte> bytes) {
  ServiceMessage service_message{from, tag, bytes.size(),
                                 std::make_unique<std::byte[]>(bytes.size())};
  std::copy(bytes.begin(), bytes.end(), service_message.bytes.get());
  peer(from).service_bytes += bytes.size();
  service_messages_.push_back(std::move(service_message));
  has_service_message = true;
}

ServiceMessage SimulatedProcess::take_service_message() {
  ServiceMessage service_message = std::move(service_messages_.front());
  service_messages_.pop_front();
  SimulatedPeer& from = peer(service_message.from);
  from.service_bytes -= service_message.size;
  while (!from.held_service_messages.empty()) {
    const size_t before = from.held_service_messages.size();
    accept_service_message(*from.held_service_messages.front());
    if (from.held_service_messages.size() == before) break;
  }
  has_service_message = !service_messages_.empty();
  return service_message;
}

void SimulatedProcess::forget_held(const std::shared_ptr<SimulatedFlight>& flight) {
  if (is_alive()) std::erase(peer(flight->from->rank).held_service_messages, flight);
}

void SimulatedProcess::fail_operations(Rank with, const absl::Status& reason) {
  peer(with).inbox.fail_posted(std::nullopt, reason);
  std::erase_if(sending, [&](const auto& flight) {
    if (flight->large_send->peer != with) return false;
    std::exchange(flight->large_send, nullptr)->finish(reason);
    return true;
  });
}

void SimulatedProcess::lose(Rank lost, const absl::Status& why) {
  peer(lost).set_state(State::kLost, why);
  fail_operations(lost, why);
  update_meeting();
}

void SimulatedProcess::drop_former(Rank of) {
  SimulatedPeer& former = peer(of);
  former.set_state(State::kNobody,
                   PeerLost(of, absl::StrCat("rank ", of.value, " has not been met")));
  fail_operations(
      of, PeerLost(of, absl::StrCat("the former process of rank ", of.value, " is dropped")));
  former.link.reset();
  former.held_service_messages.clear();
}

void SimulatedProcess::stop_for_good(const absl::Status& reason) {
  stopped = reason;
  for (SimulatedPeer& peer : peers_) peer.inbox.fail_posted(std::nullopt, reason);
  has_service_message = true;
  update_meeting();
}

void SimulatedProcess::clear() {
  peers_.clear();
  service_messages_.clear();
  postponed.clear();
}

void SimulatedProcess::update_meeting() {
  if (!is_meeting) return;
  const auto is_in = [this](State state) {
    return std::any_of(peers_.begin(), peers_.end(),
                       [&](const SimulatedPeer& peer) { return peer.state == state; });
  };
  meeting_is_settled = !stopped.ok() || is_in(State::kLost) || !is_in(State::kWanted);
}

}  // namespace evermoe
