#include "comm/ucx_messaging.h"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/log.h"

namespace evermoe {
namespace {

// Recent views whose late messages revoke() looks for.
constexpr uint32_t kDrainedViews = 8;

}  // namespace

Flight& UcxTransport::new_flight(PendingOperation* operation, Rank peer, const Tag& tag, size_t size) {
  Flight& flight = flights_.emplace_back();
  flight.transport = this;
  flight.self = std::prev(flights_.end());
  flight.buffer = pool_.take(size);
  flight.size = size;
  flight.operation = operation;
  flight.peer = peer;
  flight.tag = tag;
  return flight;
}

void UcxTransport::launch_send(PendingOperation* operation, Rank to, const Tag& tag,
                               std::span<const std::byte> bytes) {
  Flight& flight = new_flight(operation, to, tag, bytes.size());
  flight.is_send = true;
  if (!bytes.empty()) std::memcpy(flight.buffer.bytes.get(), bytes.data(), bytes.size());
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = on_sent;
  param.user_data = &flight;
  void* const request = ucp_tag_send_nbx(peer(to).endpoint, flight.buffer.bytes.get(), bytes.size(),
                                         ucx_tag(rank_, tag), &param);
  if (UCS_PTR_IS_PTR(request)) {
    flight.request = request;
  } else {
    complete(flight, UCS_PTR_RAW_STATUS(request), 0);
  }
}

void UcxTransport::launch_receive(PendingOperation* operation, Rank from, const Tag& tag, size_t size,
                                  ucp_tag_message_h found) {
  Flight& flight = new_flight(operation, from, tag, size);
  // UCX 1.13 leaves this alone when it completes at once: then only a too long message is noticed.
  ucp_tag_recv_info_t info{ucx_tag(from, tag), size};
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_RECV_INFO;
  param.cb.recv = on_received;
  param.user_data = &flight;
  param.recv_info.tag_info = &info;
  void* const request =
      found != nullptr
          ? ucp_tag_msg_recv_nbx(worker_->get(), flight.buffer.bytes.get(), size, found, &param)
          : ucp_tag_recv_nbx(worker_->get(), flight.buffer.bytes.get(), size, ucx_tag(from, tag),
                             ~uint64_t{0}, &param);
  if (UCS_PTR_IS_PTR(request)) {
    flight.request = request;
  } else {
    complete(flight, UCS_PTR_RAW_STATUS(request), info.length);
  }
}

void UcxTransport::on_sent(void* request, ucs_status_t status, void* data) {
  Flight& flight = *static_cast<Flight*>(data);
  flight.transport->complete(flight, status, 0);
  ucp_request_free(request);
}

void UcxTransport::on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info, void* data) {
  Flight& flight = *static_cast<Flight*>(data);
  flight.transport->complete(flight, status, info->length);
  ucp_request_free(request);
}

// Called inside progress: UCX must not be called from here.
void UcxTransport::on_failure(void* data, ucp_ep_h, ucs_status_t) {
  static_cast<Peer*>(data)->has_failed = true;
}

void UcxTransport::complete(Flight& flight, ucs_status_t status, size_t received) {
  flight.request = nullptr;
  completed_.push_back(flight.self);
  Peer& from = peer(flight.peer);
  CHECK(status != UCS_ERR_MESSAGE_TRUNCATED && (flight.is_send || status != UCS_OK || received == flight.size))
      << "a receive of " << flight.size << " bytes meets a message of another length from rank "
      << flight.peer << ", " << describe(flight.tag) << ", " << ucs_status_string(status) << ", " << received << " bytes";
  if (status == UCS_OK && !flight.is_send) {
    from.has_left = from.has_left || flight.tag == kGoodbye;
    from.knows_we_leave = from.knows_we_leave || flight.tag == kGoodbyeSeen;
  }
  if (flight.operation == nullptr) return;
  PendingOperation& operation = *std::exchange(flight.operation, nullptr);
  if (status == UCS_OK) {
    if (received > 0) std::memcpy(operation.target.data(), flight.buffer.bytes.get(), received);
    return operation.finish(absl::OkStatus());
  }
  if (from.lost.ok()) from.has_failed = true;
  operation.finish(!from.lost.ok() ? from.lost
                                   : PeerLost(flight.peer, absl::StrCat("rank ", flight.peer.value, ": ",
                                                                        ucs_status_string(status))));
}

// Messages that are on their way already are not cancelled by this, and complete.
void UcxTransport::cancel_receives(Rank from) {
  for (Flight& flight : flights_) {
    if (flight.peer == from && !flight.is_send && flight.request != nullptr) {
      ucp_request_cancel(worker_->get(), flight.request);
    }
  }
}

void UcxTransport::lose(Peer& peer, const absl::Status& reason) {
  peer.lost = reason;
  cancel_receives(peer.rank);
}

// Everything in flight with this peer completes in the progress that follows.
void UcxTransport::close_endpoint(Peer& peer) {
  if (peer.endpoint == nullptr) return;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  param.cb.send = on_cut;
  const void* const request = ucp_ep_close_nbx(std::exchange(peer.endpoint, nullptr), &param);
  if (UCS_PTR_IS_ERR(request)) log_warning(absl::StrCat("closing the endpoint of rank ", peer.rank.value, " failed"));
}

void UcxTransport::drive() {
  worker_->progress();
  bool has_changed = false;
  for (const auto& peer : peers_) {
    if (peer->lost.ok() && peer->has_left) {
      lose(*peer, Cancelled(absl::StrCat("rank ", peer->rank.value, " has left")));
      if (peer->endpoint != nullptr) launch_send(nullptr, peer->rank, kGoodbyeSeen, {});
      has_changed = true;
    }
    if (!peer->has_failed) continue;
    peer->has_failed = false;
    if (peer->lost.ok()) {
      lose(*peer, PeerLost(peer->rank, absl::StrCat("the connection to rank ", peer->rank.value, " has broken")));
    }
    close_endpoint(*peer);
    has_changed = true;
  }
  if (has_changed) worker_->progress();
  sweep();
}

void UcxTransport::sweep() {
  for (const auto flight : completed_) {
    pool_.give_back(std::move(flight->buffer));
    flights_.erase(flight);
  }
  completed_.clear();
}

std::unique_ptr<TransportOperation> UcxTransport::start_send(Rank to, Tag tag,
                                                             std::span<const std::byte> bytes) {
  auto send = std::make_unique<PendingOperation>(PendingOperation::Kind::kSend, to, tag);
  send->source = bytes;
  const Lock lock(mutex_);
  if (closed_ || is_revoked(tag)) {
    send->finish(closed_ ? Cancelled("the transport is closed") : revoke_reason_);
  } else if (to == rank_) {
    send_to_self(*send);
  } else if (!peer(to).lost.ok()) {
    send->finish(peer(to).lost);
  } else {
    launch_send(send.get(), to, tag, bytes);
    sweep();
    leadership_.wake_leader();
  }
  return send;
}

std::unique_ptr<TransportOperation> UcxTransport::start_receive(Rank from, Tag tag,
                                                                std::span<std::byte> into) {
  auto receive = std::make_unique<PendingOperation>(PendingOperation::Kind::kReceive, from, tag);
  receive->target = into;
  const Lock lock(mutex_);
  if (closed_ || is_revoked(tag)) {
    receive->finish(closed_ ? Cancelled("the transport is closed") : revoke_reason_);
  } else if (from == rank_) {
    from_self_.post(receive.get());
  } else {
    launch_receive(receive.get(), from, tag, into.size());
    // What a lost peer has sent before is still delivered; the rest will not come.
    if (!receive->finished && !peer(from).lost.ok()) cancel_receives(from);
    sweep();
    leadership_.wake_leader();
  }
  return receive;
}

void UcxTransport::send_to_self(PendingOperation& send) {
  if (PendingOperation* const receive = from_self_.match(send.tag); receive != nullptr) {
    deliver(send.source, *receive);
  } else {
    auto message = std::make_unique<KeptMessage>(send.tag, send.source.size());
    std::copy(send.source.begin(), send.source.end(), message->bytes.get());
    from_self_.keep(std::move(message));
  }
  send.finish(absl::OkStatus());
  leadership_.wake_finished_leader();
}

absl::Status UcxTransport::wait(std::unique_ptr<TransportOperation> operation, absl::Duration timeout) {
  auto& pending = static_cast<PendingOperation&>(*operation);
  Lock lock(mutex_);
  if (!pending.finished) {
    leadership_.block(pending, Deadline(timeout), lock,
                      [this](const Deadline& deadline, Lock& held) { return work(deadline, held); });
  }
  if (!pending.finished) {
    let_go(pending);
    pending.finish(timeout_of(pending, timeout));
  }
  return pending.status;
}

bool UcxTransport::work(const Deadline& deadline, Lock& lock) {
  drive();
  if (leadership_.leader_is_finished()) return true;
  const auto armed = worker_->arm();
  CHECK_OK(armed.status());
  if (!*armed) {
    ::sched_yield();
    return !deadline.passed();
  }
  std::array<pollfd, 2> watched{{{worker_->event_fd(), POLLIN, 0}, {leadership_.wake_up_fd(), POLLIN, 0}}};
  const int timeout_ms = deadline.left_ms();
  lock.unlock();
  const int count = ::poll(watched.data(), watched.size(), timeout_ms);
  lock.lock();
  if (count > 0 && watched[1].revents != 0) leadership_.clear_wake_up();
  return !deadline.passed();
}

// UCX keeps the message's memory, which is ours, until it is done with it.
void UcxTransport::let_go(PendingOperation& operation) {
  if (operation.peer == rank_) {
    from_self_.withdraw(&operation);
    return;
  }
  for (Flight& flight : flights_) {
    if (flight.operation != &operation) continue;
    flight.operation = nullptr;
    if (!flight.is_send && flight.request != nullptr) ucp_request_cancel(worker_->get(), flight.request);
    return;
  }
}

bool UcxTransport::done(TransportOperation& operation) {
  auto& pending = static_cast<PendingOperation&>(operation);
  const Lock lock(mutex_);
  if (!pending.finished && !leadership_.has_leader()) drive();
  return pending.finished;
}

absl::StatusOr<Letter> UcxTransport::receive_letter(absl::Duration) { return Unsupported("letters"); }

absl::Status UcxTransport::meet(const std::vector<PeerAddress>&, absl::Duration) { return Unsupported("meet"); }

void UcxTransport::revoke(GroupRange, View view, absl::Status reason) {
  const Lock lock(mutex_);
  if (revoked_ && *revoked_ >= view) return;
  revoked_ = view;
  revoke_reason_ = reason;
  from_self_.fail_posted(view, reason);
  from_self_.drop_kept(view);
  for (Flight& flight : flights_) {
    if (flight.operation == nullptr || flight.tag.view > view || flight.tag.group == kOwnGroup) continue;
    PendingOperation& operation = *std::exchange(flight.operation, nullptr);
    if (!flight.is_send && flight.request != nullptr) ucp_request_cancel(worker_->get(), flight.request);
    operation.finish(reason);
  }
  worker_->progress();
  for (uint32_t back = 0; back < kDrainedViews && back <= view.value; ++back) {
    discard_messages(ucx_tag(Rank(0), Tag{View(view.value - back)}), kViewMask);
  }
  sweep();
  leadership_.wake_leader();
}

void UcxTransport::discard_messages(uint64_t tag, uint64_t mask) {
  ucp_tag_recv_info_t info;
  while (true) {
    ucp_tag_message_h const found = ucp_tag_probe_nb(worker_->get(), tag, mask, 1, &info);
    if (found == nullptr) return;
    const Rank sender(static_cast<int32_t>(info.sender_tag >> (kViewBits + kGroupBits + kPurposeBits)));
    launch_receive(nullptr, sender, Tag{}, info.length, found);
  }
}

}  // namespace evermoe
