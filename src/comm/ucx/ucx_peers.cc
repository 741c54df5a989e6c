#include "comm/ucx/ucx_peers.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/transport/frame.h"

namespace evermoe {
namespace {

// The messages of the transport's own that a peer may send next.
uint32_t expected_from(const UcxPeer& peer) {
  return peer.has_greeted ? 1u << kGoodbye | 1u << kGoodbyeSeen | 1u << kTurnedAway : 1u << kHello;
}

}  // namespace

UcxPeers::UcxPeers(Rank rank, int size, uint64_t own_number, const JobSecret& secret,
                   UcxWorker& worker, UcxFlights& flights)
    : rank_(rank),
      own_number_(own_number),
      secret_(secret),
      nonce_(new_nonce()),
      worker_(worker),
      flights_(flights),
      places_(static_cast<size_t>(size)) {
  for (size_t i = 0; i < places_.size(); ++i) {
    places_[i].empty =
        PeerLost(Rank(static_cast<int32_t>(i)), absl::StrCat("rank ", i, " has not been named"));
  }
}

UcxPeers::Place& UcxPeers::place(Rank rank) {
  CHECK(rank.value >= 0 && rank.value < size()) << "rank " << rank << " of " << size();
  return places_[static_cast<size_t>(rank.value)];
}

UcxPeer* UcxPeers::find(Rank rank) {
  return rank.value < size() ? places_[static_cast<size_t>(rank.value)].peer.get() : nullptr;
}

absl::Status UcxPeers::create_endpoint(UcxPeer& peer) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(peer.process.worker.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {on_failure, &peer};
  const auto status = ucp_ep_create(worker_.get(), &params, &peer.endpoint);
  if (status == UCS_OK) return absl::OkStatus();
  peer.endpoint = nullptr;
  return PeerLost(peer.rank, absl::StrCat("rank ", peer.rank.value,
                                          " cannot be reached: ", ucs_status_string(status)));
}

// Called inside progress: UCX must not be called from here.
void UcxPeers::on_failure(void* data, ucp_ep_h, ucs_status_t) {
  UcxPeer& peer = *static_cast<UcxPeer*>(data);
  peer.peers->report_failure(peer);
}

void UcxPeers::on_cut(void* request, ucs_status_t, void* peer) {
  --static_cast<UcxPeer*>(peer)->uses;
  ucp_request_free(request);
}

void UcxPeers::name_process(Rank rank, const UcxProcess& process) {
  auto peer = std::make_unique<UcxPeer>();
  peer->peers = this;
  peer->rank = rank;
  peer->process = process;
  ++unsettled_;
  note(*(place(rank).peer = std::move(peer)));
}

void UcxPeers::connect(UcxPeer& peer) {
  if (peer.endpoint != nullptr || !peer.lost.ok()) return;
  if (const absl::Status created = create_endpoint(peer); created.ok()) {
    say(peer, kHello);
    if (leaves_) say(peer, kGoodbye);
  } else {
    lose(peer, created);
  }
}

ProvenGreeting UcxPeers::own_greeting(const UcxPeer& to) const {
  return {{rank_, static_cast<uint32_t>(size()), to.process.since, own_number_}, nonce_};
}

void UcxPeers::say(UcxPeer& peer, uint32_t purpose) {
  const ProvenGreetingBytes greeting = encode_proven_greeting(
      secret_, own_greeting(peer), {peer.rank, peer.process.number, purpose});
  flights_.send(*this, peer, Tag{peer.process.since, kOwnGroup, purpose}, greeting);
}

void UcxPeers::listen_to(UcxPeer& peer) {
  for (const uint32_t purpose : {kHello, kGoodbye, kGoodbyeSeen, kTurnedAway}) {
    const uint32_t bit = 1u << purpose;
    // Again as long as what comes is of another process: one that has died meanwhile.
    while ((expected_from(peer) & bit & ~peer.listens_for) != 0) {
      peer.listens_for |= bit;
      flights_.receive(*this, peer, Tag{peer.process.since, kOwnGroup, purpose},
                       kProvenGreetingBytes);
    }
  }
}

void UcxPeers::landed(Flight& flight, ucs_status_t status) {
  UcxPeer& peer = *flight.peer;
  if (!flight.is_receive) {
    if (flight.tag.purpose != kHello) return;
    peer.is_greeted = status == UCS_OK;
    return note(peer);
  }
  peer.listens_for &= ~(1u << flight.tag.purpose);
  note(peer);
  if (status == UCS_OK && flight.bytes.are_complete()) hear(peer, flight);
}

void UcxPeers::hear(UcxPeer& peer, const Flight& flight) {
  const uint32_t purpose = flight.tag.purpose;
  const auto heard =
      decode_proven_greeting(secret_, flight.bytes.received(), {rank_, own_number_, purpose});
  if (!heard.ok()) {
    // Strangers may say it often; it is said at the first, the second, the fourth, ...
    if (std::has_single_bit(static_cast<uint64_t>(++refused_))) {
      log_warning(absl::StrCat("refused ", refused_, " greetings; the newest in the name of rank ",
                               peer.rank.value, ": ", heard.status().message()));
    }
    return;
  }
  const Greeting& greeting = heard->greeting;
  if (greeting.rank != peer.rank || greeting.process != peer.process.number) return;
  if (purpose == kHello) {
    peer.out = pass_between(secret_, own_greeting(peer), *heard);
    peer.in = pass_between(secret_, *heard, own_greeting(peer));
  }
  peer.world_size = greeting.world_size;
  peer.has_greeted = peer.has_greeted || purpose == kHello;
  peer.has_left = peer.has_left || purpose == kGoodbye;
  peer.knows_we_leave = peer.knows_we_leave || purpose == kGoodbyeSeen;
  peer.has_failed = peer.has_failed || purpose == kTurnedAway;
}

void UcxPeers::note(UcxPeer& peer) {
  if (!std::exchange(peer.is_noted, true)) noted_.push_back(&peer);
}

void UcxPeers::settle(UcxPeer& peer) {
  if (find(peer.rank) == &peer) settled_.push_back(peer.rank);  // else a former one
  if (std::exchange(peer.is_settled, true)) return;
  --unsettled_;
  if (peer.lost.ok() && peer.process.is_older) ++opened_;
}

void UcxPeers::report_failure(UcxPeer& peer) {
  peer.has_failed = true;
  note(peer);
}

bool UcxPeers::act_upon_noted() {
  bool has_acted = false;
  for (UcxPeer* const peer : std::exchange(noted_, {})) {
    peer->is_noted = false;
    has_acted = act_upon(*peer) || has_acted;
  }
  return has_acted || !noted_.empty();
}

// True if there was something: progress follows.
bool UcxPeers::act_upon(UcxPeer& peer) {
  if (peer.lost.ok()) listen_to(peer);
  const bool answers = peer.has_greeted && peer.endpoint == nullptr && peer.lost.ok();
  if (answers) connect(peer);
  // Not before our greeting has gone out: the other one has to see it, too, and whoever learns of
  // this here may not drive the channel again.
  if (peer.is_connected() && peer.world_size != places_.size() && peer.lost.ok()) {
    lose(peer, InvalidInput(absl::StrCat("rank ", peer.rank.value, " believes in ", peer.world_size,
                                         " ranks, this one in ", places_.size())));
  }
  if (peer.is_connected() && peer.lost.ok()) settle(peer);
  const bool leaves = peer.lost.ok() && peer.has_left;
  if (leaves) {
    lose(peer, Cancelled(absl::StrCat("rank ", peer.rank.value, " has left")));
    if (peer.endpoint != nullptr) say(peer, kGoodbyeSeen);
  }
  if (!std::exchange(peer.has_failed, false)) return leaves || answers;
  if (peer.lost.ok()) {
    lose(peer, PeerLost(peer.rank, absl::StrCat("the connection to rank ", peer.rank.value,
                                                " has broken or ended")));
  }
  cut(peer);
  return true;
}

void UcxPeers::lose(UcxPeer& peer, const absl::Status& reason) {
  peer.lost = reason;
  settle(peer);
  flights_.cancel_receives(peer);
}

// Everything in flight with this peer completes in the progress that follows.
void UcxPeers::cut(UcxPeer& peer) {
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

void UcxPeers::turn_away(Rank rank, const absl::Status& reason) {
  UcxPeer& former = *former_.emplace_back(std::move(place(rank).peer));
  if (former.has_endpoint()) {
    say(former, kTurnedAway);
    worker_.progress();
  }
  lose(former, reason);
  cut(former);
  worker_.progress();
}

void UcxPeers::say_goodbye() {
  leaves_ = true;
  for (const Place& place : places_) {
    if (place.peer && place.peer->has_endpoint()) say(*place.peer, kGoodbye);
  }
}

bool UcxPeers::has_unheard_goodbye(bool only_if_sent_to) const {
  return std::any_of(places_.begin(), places_.end(), [&](const Place& place) {
    const UcxPeer* const peer = place.peer.get();
    return peer != nullptr && peer->has_endpoint() && peer->has_greeted && !peer->knows_we_leave &&
           (!only_if_sent_to || peer->is_sent_to);
  });
}

void UcxPeers::lose_all(const absl::Status& reason) {
  for (const Place& place : places_) {
    if (place.peer && place.peer->lost.ok()) lose(*place.peer, reason);
  }
}

void UcxPeers::cut_all() {
  for (const Place& place : places_) {
    if (place.peer) cut(*place.peer);
  }
}

void UcxPeers::sweep() {
  std::erase_if(former_, [this](const auto& peer) {
    if (peer->uses > 0) return false;
    std::erase(noted_, peer.get());
    return true;
  });
}

}  // namespace evermoe
