// How a channel brings processes together and apart: endpoints, greetings, losses.
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/transport/frame.h"
#include "comm/ucx/ucx_channel.h"

namespace evermoe {
namespace {

// After cutting a connection its messages end within about a millisecond of progress.
constexpr absl::Duration kCutMax = absl::Seconds(2);

// The messages of the transport's own that a peer may send next.
uint32_t expected_from(const UcxPeer& peer) {
  return peer.has_greeted ? 1u << kGoodbye | 1u << kGoodbyeSeen | 1u << kTurnedAway : 1u << kHello;
}

}  // namespace

UcxChannel::UcxChannel(Rank rank, int size, uint64_t own_number, std::unique_ptr<UcxWorker> worker,
                       Traffic traffic, ProgressThread& progress,
                       const UcxTransportOptions& options)
    : rank_(rank),
      own_number_(own_number),
      traffic_(traffic),
      worker_(std::move(worker)),
      background_(progress),
      seats_(static_cast<size_t>(size)),
      pool_(options.pooled_bytes_max),
      service_messages_(size) {
  for (size_t i = 0; i < seats_.size(); ++i) {
    seats_[i].empty =
        PeerLost(Rank(static_cast<int32_t>(i)), absl::StrCat("rank ", i, " has not been met"));
  }
}

UcxChannel::~UcxChannel() {
  const Lock lock(mutex_);
  for (const Seat& seat : seats_) {
    if (!seat.peer) continue;
    if (seat.peer->lost.ok()) lose(*seat.peer, Cancelled("the transport was destroyed"));
    cut(*seat.peer);
  }
  worker_->progress();
  discard_messages(0, 0);
  sweep();
  const Deadline deadline(kCutMax);
  while (!flights_.empty() && !deadline.passed()) worker_->progress(), sweep();
  if (!flights_.empty()) log_error("UCX has not given back every message of a closed transport");
}

absl::Status UcxChannel::create_endpoint(UcxPeer& peer) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(peer.process.worker.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {on_failure, &peer};
  const auto status = ucp_ep_create(worker_->get(), &params, &peer.endpoint);
  if (status == UCS_OK) return absl::OkStatus();
  peer.endpoint = nullptr;
  return PeerLost(peer.rank, absl::StrCat("rank ", peer.rank.value,
                                          " cannot be reached: ", ucs_status_string(status)));
}

// Called inside progress: UCX must not be called from here.
void UcxChannel::on_failure(void* data, ucp_ep_h, ucs_status_t) {
  UcxPeer& peer = *static_cast<UcxPeer*>(data);
  peer.has_failed = true;
  peer.channel->note(peer);
}

void UcxChannel::on_cut(void* request, ucs_status_t, void* peer) {
  --static_cast<UcxPeer*>(peer)->uses;
  ucp_request_free(request);
}

// Greeting at once establishes the connection, so that the death of the peer breaks one.
absl::Status UcxChannel::greet(Rank rank, const UcxProcess& process) {
  const Lock lock(mutex_);
  if (closed_) return Cancelled("the transport is closed");
  auto peer = std::make_unique<UcxPeer>();
  peer->channel = this;
  peer->rank = rank;
  peer->process = process;
  peer->lost = create_endpoint(*peer);
  UcxPeer& called = *(seat(rank).peer = std::move(peer));
  if (called.lost.ok()) launch_own_send(called, kHello);
  note(called);
  drive();
  progress_driver_.wake_leader();
  // Who has met us and left meanwhile has been met.
  return absl::IsCancelled(called.lost) ? absl::OkStatus() : called.lost;
}

void UcxChannel::launch_own_send(UcxPeer& peer, uint32_t purpose) {
  const GreetingBytes greeting =
      encode_greeting({rank_, static_cast<uint32_t>(size()), peer.process.since, own_number_});
  launch_send(nullptr, peer, Tag{peer.process.since, kOwnGroup, purpose}, greeting);
}

void UcxChannel::listen_to(UcxPeer& peer) {
  for (const uint32_t purpose : {kHello, kGoodbye, kGoodbyeSeen, kTurnedAway}) {
    const uint32_t bit = 1u << purpose;
    // Again as long as what comes is of another process: one that has died meanwhile.
    while ((expected_from(peer) & bit & ~peer.listens_for) != 0) {
      peer.listens_for |= bit;
      launch_receive(new_flight(Flight::Role::kOwnReceive, &peer,
                                Tag{peer.process.since, kOwnGroup, purpose}, kGreetingBytes));
    }
  }
}

void UcxChannel::own_message_came(Flight& flight, bool is_ok) {
  UcxPeer& peer = *flight.peer;
  const uint32_t purpose = flight.tag.purpose;
  peer.listens_for &= ~(1u << purpose);
  note(peer);
  if (!is_ok) return;
  const auto greeting = decode_greeting({flight.buffer.bytes.get(), kGreetingBytes});
  if (!greeting.ok()) {
    log_warning(absl::StrCat("rank ", peer.rank.value, ": ", greeting.status().ToString()));
    return;
  }
  if (greeting->process != peer.process.number) return;
  peer.world_size = greeting->world_size;
  peer.has_greeted = peer.has_greeted || purpose == kHello;
  peer.has_left = peer.has_left || purpose == kGoodbye;
  peer.knows_we_leave = peer.knows_we_leave || purpose == kGoodbyeSeen;
  peer.has_failed = peer.has_failed || purpose == kTurnedAway;
}

void UcxChannel::note(UcxPeer& peer) {
  has_news_of_meeting_ = true;
  if (!std::exchange(peer.is_noted, true)) noted_.push_back(&peer);
}

// True if there was something: progress follows.
bool UcxChannel::act_upon_noted() {
  bool has_acted = false;
  for (UcxPeer* const peer : std::exchange(noted_, {})) {
    peer->is_noted = false;
    has_acted = act_upon(*peer) || has_acted;
  }
  return has_acted || !noted_.empty();
}

// On what callbacks have noted. True if there was something: progress follows.
bool UcxChannel::act_upon(UcxPeer& peer) {
  if (peer.lost.ok()) listen_to(peer);
  const bool leaves = peer.lost.ok() && peer.has_left;
  if (leaves) {
    lose(peer, Cancelled(absl::StrCat("rank ", peer.rank.value, " has left")));
    if (peer.endpoint != nullptr) launch_own_send(peer, kGoodbyeSeen);
  }
  if (!std::exchange(peer.has_failed, false)) return leaves;
  if (peer.lost.ok()) {
    lose(peer, PeerLost(peer.rank, absl::StrCat("the connection to rank ", peer.rank.value,
                                                " has broken or ended")));
  }
  cut(peer);
  return true;
}

// Messages that are on their way already are not cancelled by this, and complete.
void UcxChannel::cancel_receives(const UcxPeer& from) {
  for (Flight& flight : flights_) {
    const bool is_receive =
        flight.role == Flight::Role::kReceive || flight.role == Flight::Role::kOwnReceive;
    if (flight.peer == &from && is_receive && flight.request != nullptr) {
      ucp_request_cancel(worker_->get(), flight.request);
    }
  }
}

void UcxChannel::lose(UcxPeer& peer, const absl::Status& reason) {
  peer.lost = reason;
  has_news_of_meeting_ = true;
  cancel_receives(peer);
}

// Everything in flight with this peer completes in the progress that follows.
void UcxChannel::cut(UcxPeer& peer) {
  if (peer.endpoint == nullptr) return;
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  param.cb.send = on_cut;
  param.user_data = &peer;
  const void* const request = ucp_ep_close_nbx(std::exchange(peer.endpoint, nullptr), &param);
  if (UCS_PTR_IS_PTR(request)) ++peer.uses;
  if (UCS_PTR_IS_ERR(request))
    log_warning(absl::StrCat("closing the endpoint of rank ", peer.rank.value, " failed"));
}

void UcxChannel::vacate(Rank rank, const absl::Status& reason) {
  const Lock lock(mutex_);
  Seat& left = seat(rank);
  left.empty = reason;
  if (!left.peer) return;
  drive();
  if (traffic_ == Traffic::kService) {
    ucp_tag_recv_info_t info;
    const uint64_t service_messages = ucx_tag(rank, Tag{View(0), kServiceGroup});
    while (ucp_tag_message_h const found = ucp_tag_probe_nb(worker_->get(), service_messages,
                                                            kRankMask | kGroupMask, 1, &info)) {
      launch_service_message(found, info);
    }
  }
  UcxPeer& former = *former_.emplace_back(std::move(left.peer));
  for (Flight& flight : flights_) {
    if (flight.peer == &former && flight.operation != nullptr)
      std::exchange(flight.operation, nullptr)->finish(reason);
  }
  if (former.lost.ok()) {
    launch_own_send(former, kTurnedAway);
    worker_->progress();
  }
  lose(former, reason);
  cut(former);
  worker_->progress();
  if (traffic_ == Traffic::kMessages) {
    for_each_block(kAllGroups, [&](uint16_t first, uint64_t group_mask) {
      discard_messages(ucx_tag(rank, Tag{View(0), first}), kRankMask | group_mask);
    });
  }
  sweep();
  progress_driver_.wake_leader();
}

absl::Status UcxChannel::state_of(Rank rank) {
  const Lock lock(mutex_);
  if (!progress_driver_.has_leader()) drive();
  const Seat& asked = seat(rank);
  if (!asked.peer) return asked.empty;
  return asked.peer->lost;
}

void UcxChannel::update_meeting() {
  if (meeting_ == nullptr || !std::exchange(has_news_of_meeting_, false)) return;
  if (absl::IsDeadlineExceeded(outcome_of_meeting())) return;
  std::exchange(meeting_, nullptr)->finish(absl::OkStatus());
}

// Who has met and then left at once has been met.
absl::Status UcxChannel::outcome_of_meeting() const {
  if (closed_) return Cancelled("the transport is closed");
  std::vector<int32_t> silent;
  for (const Seat& seat : seats_) {
    if (!seat.peer) continue;
    const UcxPeer& peer = *seat.peer;
    if (peer.has_greeted && peer.world_size != seats_.size()) {
      return InvalidInput(absl::StrCat("rank ", peer.rank.value, " believes in ", peer.world_size,
                                       " ranks, this one in ", seats_.size()));
    }
    if (!peer.is_met()) silent.push_back(peer.rank.value);
    const bool has_met_and_left = peer.is_met() && absl::IsCancelled(peer.lost);
    if (!peer.lost.ok() && !has_met_and_left)
      return PeerLost(peer.rank, std::string(peer.lost.message()));
  }
  if (silent.empty()) return absl::OkStatus();
  return Timeout(Rank(silent[0]), absl::StrCat("ranks ", absl::StrJoin(silent, ", "),
                                               " have not connected in time"));
}

absl::Status UcxChannel::await_greetings(const Deadline& deadline) {
  PendingOperation meeting(PendingOperation::Kind::kReceive, rank_, Tag{View(0), kOwnGroup});
  Lock lock(mutex_);
  meeting_ = &meeting;
  has_news_of_meeting_ = true;
  if (!progress_driver_.has_leader()) drive();
  update_meeting();
  if (!meeting.finished)
    progress_driver_.block(meeting, deadline, lock,
                           [this](const Deadline& until, Lock& held) { return work(until, held); });
  meeting_ = nullptr;
  if (!meeting.finished) meeting.finish(absl::OkStatus());
  return outcome_of_meeting();
}

}  // namespace evermoe
