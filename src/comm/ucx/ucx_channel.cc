#include "comm/ucx/ucx_channel.h"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {
namespace {

// UCX may report events this often without having anything to do; then the channel looks for them
// itself, once per pause.
constexpr int kVainCallsMax = 8;
constexpr absl::Duration kPause = absl::Microseconds(500);

}  // namespace

UcxChannel::Seat& UcxChannel::seat(Rank rank) {
  CHECK(rank.value >= 0 && rank.value < size()) << "rank " << rank << " of " << size();
  return seats_[static_cast<size_t>(rank.value)];
}

Flight& UcxChannel::new_flight(Flight::Role role, UcxPeer* peer, const Tag& tag, size_t size) {
  Flight& flight = flights_.emplace_back();
  flight.channel = this;
  flight.self = std::prev(flights_.end());
  flight.role = role;
  flight.tag = tag;
  flight.size = size;
  flight.peer = peer;
  if (role != Flight::Role::kService) flight.buffer = pool_.take(size);
  if (peer != nullptr) ++peer->uses;
  return flight;
}

void UcxChannel::launch_send(PendingOperation* operation, UcxPeer& to, const Tag& tag,
                             std::span<const std::byte> bytes) {
  const ServiceMessageEnd end{tag.view.value, 0, own_number_};
  const size_t extra = tag.group == kServiceGroup ? sizeof(end) : 0;
  Flight& flight = new_flight(Flight::Role::kSend, &to, tag, bytes.size() + extra);
  flight.operation = operation;
  if (!bytes.empty()) std::memcpy(flight.buffer.bytes.get(), bytes.data(), bytes.size());
  if (extra > 0) std::memcpy(flight.buffer.bytes.get() + bytes.size(), &end, extra);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = on_sent;
  param.user_data = &flight;
  void* const request = ucp_tag_send_nbx(to.endpoint, flight.buffer.bytes.get(), flight.size,
                                         ucx_tag(rank_, tag), &param);
  if (UCS_PTR_IS_PTR(request)) {
    flight.request = request;
  } else {
    complete(flight, UCS_PTR_RAW_STATUS(request), 0);
  }
}

// Into the flight's memory; `found` is a message that a probe has taken out, if any.
void UcxChannel::launch_receive(Flight& flight, ucp_tag_message_h found) {
  std::byte* const into = flight.service_message != nullptr
                              ? flight.service_message->service_message.bytes.get()
                              : flight.buffer.bytes.get();
  // UCX 1.13 leaves this alone when it completes at once: then only a too long message is noticed.
  ucp_tag_recv_info_t info{0, flight.size};
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_RECV_INFO;
  param.cb.recv = on_received;
  param.user_data = &flight;
  param.recv_info.tag_info = &info;
  void* const request =
      found != nullptr ? ucp_tag_msg_recv_nbx(worker_->get(), into, flight.size, found, &param)
                       : ucp_tag_recv_nbx(worker_->get(), into, flight.size,
                                          ucx_tag(flight.peer->rank, flight.tag), kExactly, &param);
  if (UCS_PTR_IS_PTR(request)) {
    flight.request = request;
  } else {
    complete(flight, UCS_PTR_RAW_STATUS(request), info.length);
  }
}

void UcxChannel::on_sent(void* request, ucs_status_t status, void* data) {
  Flight& flight = *static_cast<Flight*>(data);
  flight.channel->complete(flight, status, 0);
  ucp_request_free(request);
}

void UcxChannel::on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info,
                             void* data) {
  Flight& flight = *static_cast<Flight*>(data);
  flight.channel->complete(flight, status, info->length);
  ucp_request_free(request);
}

void UcxChannel::complete(Flight& flight, ucs_status_t status, size_t received) {
  flight.request = nullptr;
  completed_.push_back(flight.self);
  const bool is_whole = status == UCS_OK && received == flight.size;
  switch (flight.role) {
    case Flight::Role::kSend:
      if (flight.tag.group == kOwnGroup && flight.tag.purpose == kHello) {
        flight.peer->is_greeted = status == UCS_OK;
        note(*flight.peer);
      }
      return finish_operation(flight, status, 0);
    case Flight::Role::kReceive:
      CHECK(status != UCS_ERR_MESSAGE_TRUNCATED && (status != UCS_OK || is_whole))
          << "a receive of " << flight.size << " bytes meets a message of another length from rank "
          << flight.peer->rank << ", " << describe(flight.tag) << ", " << ucs_status_string(status)
          << ", " << received << " bytes";
      return finish_operation(flight, status, received);
    case Flight::Role::kOwnReceive: return own_message_came(flight, is_whole);
    case Flight::Role::kService: return service_message_came(flight, is_whole);
    case Flight::Role::kDiscard: return;
  }
}

void UcxChannel::finish_operation(Flight& flight, ucs_status_t status, size_t received) {
  if (flight.operation == nullptr) return;
  PendingOperation& operation = *std::exchange(flight.operation, nullptr);
  if (status == UCS_OK) {
    if (received > 0) std::memcpy(operation.target.data(), flight.buffer.bytes.get(), received);
    return operation.finish(absl::OkStatus());
  }
  UcxPeer& peer = *flight.peer;
  if (peer.lost.ok()) peer.has_failed = true, note(peer);
  operation.finish(!peer.lost.ok()
                       ? peer.lost
                       : PeerLost(peer.rank, absl::StrCat("rank ", peer.rank.value, ": ",
                                                          ucs_status_string(status))));
}

void UcxChannel::sweep() {
  for (const auto flight : completed_) {
    if (flight->peer != nullptr) --flight->peer->uses;
    pool_.give_back(std::move(flight->buffer));
    flights_.erase(flight);
  }
  completed_.clear();
  std::erase_if(former_, [this](const auto& peer) {
    if (peer->uses > 0) return false;
    std::erase(noted_, peer.get());
    return true;
  });
}

// Ok if operations of this tag with that rank are possible.
absl::Status UcxChannel::refusal(const Seat& with, const Tag& tag) const {
  if (closed_) return Cancelled("the transport is closed");
  if (const absl::Status* const reason = revocations_.find(tag); reason != nullptr) return *reason;
  if (&with == &seats_[static_cast<size_t>(rank_.value)]) return absl::OkStatus();
  return with.peer && with.peer->has_greeted ? absl::OkStatus() : with.empty;
}

std::unique_ptr<TransportOperation> UcxChannel::start_send(Rank to, Tag tag,
                                                           std::span<const std::byte> bytes) {
  auto send = std::make_unique<PendingOperation>(PendingOperation::Kind::kSend, to, tag);
  send->source = bytes;
  const Lock lock(mutex_);
  Seat& receiver = seat(to);
  if (absl::Status refused = refusal(receiver, tag); !refused.ok()) {
    send->finish(std::move(refused));
  } else if (to == rank_) {
    send_to_self(*send);
  } else if (!receiver.peer->lost.ok()) {
    send->finish(receiver.peer->lost);
  } else {
    receiver.peer->is_sent_to = true;
    launch_send(send.get(), *receiver.peer, tag, bytes);
    sweep();
    see_to(*send);
  }
  return send;
}

std::unique_ptr<TransportOperation> UcxChannel::start_receive(Rank from, Tag tag,
                                                              std::span<std::byte> into) {
  auto receive = std::make_unique<PendingOperation>(PendingOperation::Kind::kReceive, from, tag);
  receive->target = into;
  const Lock lock(mutex_);
  Seat& sender = seat(from);
  if (absl::Status refused = refusal(sender, tag); !refused.ok()) {
    receive->finish(std::move(refused));
  } else if (from == rank_) {
    from_self_.post(receive.get());
  } else {
    Flight& flight = new_flight(Flight::Role::kReceive, sender.peer.get(), tag, into.size());
    flight.operation = receive.get();
    launch_receive(flight);
    // What a lost peer has sent before is still delivered; the rest will not come.
    if (!receive->finished && !sender.peer->lost.ok()) cancel_receives(*sender.peer);
    sweep();
    see_to(*receive);
  }
  return receive;
}

// Whoever sleeps until UCX has something to do has to look again after every call of UCX.
void UcxChannel::see_to(PendingOperation& operation) {
  progress_driver_.wake_leader();
  background_.add(operation);
  background_.wake_driver();
}

void UcxChannel::send_to_self(PendingOperation& send) {
  const auto copy_to = [&](std::byte* target) {
    std::copy(send.source.begin(), send.source.end(), target);
  };
  if (traffic_ == Traffic::kService) {
    ServiceMessage service_message = service_messages_.expect(rank_, send.tag, send.source.size());
    copy_to(service_message.bytes.get());
    service_messages_.put(std::move(service_message));
  } else if (PendingOperation* const receive = from_self_.match(send.tag); receive != nullptr) {
    deliver(send.source, *receive);
  } else {
    auto message = std::make_unique<KeptMessage>(send.tag, send.source.size());
    copy_to(message->bytes.get());
    from_self_.keep(std::move(message));
  }
  send.finish(absl::OkStatus());
  progress_driver_.wake_finished_leader();
}

absl::Status UcxChannel::wait(std::unique_ptr<TransportOperation> operation,
                              absl::Duration timeout) {
  auto& pending = static_cast<PendingOperation&>(*operation);
  Lock lock(mutex_);
  if (!pending.finished) block(pending, Deadline(timeout), lock);
  if (!pending.finished) {
    let_go(pending);
    pending.finish(timeout_of(pending, timeout));
  }
  return pending.status;
}

// While a thread waits for a service message to be taken, more of the others' may come: see
// unix_connection.h.
void UcxChannel::block(PendingOperation& operation, const Deadline& deadline, Lock& lock) {
  const int change = operation.kind == PendingOperation::Kind::kSend ? 1 : 0;
  background_.somebody_waits();
  send_waiters_ += change;
  if (send_waiters_ > 0) progress_driver_.wake_leader();
  progress_driver_.block(operation, deadline, lock,
                         [this](const Deadline& until, Lock& held) { return work(until, held); });
  send_waiters_ -= change;
}

bool UcxChannel::work(const Deadline& deadline, Lock& lock) {
  drive();
  if (progress_driver_.leader_is_finished()) return true;
  const auto armed = worker_->arm();
  CHECK_OK(armed.status());
  // UCX 1.13 reports a connection that a silent process does not answer as writable all the time.
  const bool is_pause = vain_calls_ > kVainCallsMax;
  std::array<pollfd, 2> watched{
      {{progress_driver_.wake_up_fd(), POLLIN, 0}, {worker_->event_fd(), POLLIN, 0}}};
  const absl::Duration longest = !*armed    ? absl::ZeroDuration()
                                 : is_pause ? kPause
                                            : absl::Hours(1);
  const timespec timeout = absl::ToTimespec(std::min(longest, deadline.left()));
  lock.unlock();
  const int count = ::ppoll(watched.data(), is_pause ? 1 : 2, &timeout, nullptr);
  if (!*armed) ::sched_yield();
  lock.lock();
  if (count > 0 && watched[0].revents != 0) progress_driver_.clear_wake_up();
  if (count > 0 && watched[1].revents != 0) ++vain_calls_;
  return !deadline.passed();
}

ProgressThread::Next UcxChannel::drive_in_background() {
  const Lock lock(mutex_);
  ProgressThread::Next next;
  if (!background_.begins(progress_driver_.has_leader(), next)) return next;
  ++vain_calls_;
  drive();
  const auto armed = worker_->arm();
  CHECK_OK(armed.status());
  if (!*armed) return {.look_again = absl::ZeroDuration()};
  if (vain_calls_ > kVainCallsMax) return {.look_again = kPause};  // see work()
  return {.event_fd = worker_->event_fd()};
}

bool UcxChannel::drive() {
  bool has_moved = false;
  for (bool has_acted = true; has_acted;) {
    has_moved = worker_->progress() || has_moved;
    has_acted = act_upon_noted();
    has_moved = has_moved || has_acted;
  }
  if (traffic_ == Traffic::kService) take_service_messages();
  update_meeting();
  sweep();
  if (has_moved) vain_calls_ = 0;
  return has_moved;
}

// UCX keeps the message's memory, which is ours, until it is done with it.
void UcxChannel::let_go(PendingOperation& operation) {
  if (operation.peer == rank_) {
    from_self_.withdraw(&operation);
    return;
  }
  for (Flight& flight : flights_) {
    if (flight.operation != &operation) continue;
    flight.operation = nullptr;
    if (flight.role == Flight::Role::kReceive && flight.request != nullptr) {
      ucp_request_cancel(worker_->get(), flight.request);
    }
    return;
  }
}

bool UcxChannel::done(TransportOperation& operation) {
  auto& pending = static_cast<PendingOperation&>(operation);
  const Lock lock(mutex_);
  if (!pending.finished && !progress_driver_.has_leader()) drive();
  return pending.finished;
}

}  // namespace evermoe
