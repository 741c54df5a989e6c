#include "comm/ucx_transport.h"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/host_address.h"
#include "comm/inbox.h"
#include "comm/leadership.h"
#include "comm/ucx_worker.h"

namespace evermoe {
namespace {

// Bits of the UCX tag, from the lowest.
constexpr int kPurposeBits = 31;
constexpr int kGroupBits = 12;
constexpr int kViewBits = 11;
constexpr int kRankBits = 10;
static_assert(kPurposeBits + kGroupBits + kViewBits + kRankBits == 64);

constexpr uint64_t kViewMask = ((uint64_t{1} << kViewBits) - 1) << (kGroupBits + kPurposeBits);

// The last group is the transport's own: greetings and goodbyes.
constexpr uint16_t kOwnGroup = (1 << kGroupBits) - 1;
const Tag kHello{View(0), kOwnGroup, 1};
const Tag kGoodbye{View(0), kOwnGroup, 2};
// Answers a goodbye: who leaves before it has arrived may take it away again by closing the socket.
const Tag kGoodbyeSeen{View(0), kOwnGroup, 3};

// After cutting a connection its messages end within about a millisecond of progress.
constexpr absl::Duration kCutMax = absl::Seconds(2);

uint64_t ucx_tag(Rank sender, const Tag& tag) {
  CHECK(tag.purpose >> kPurposeBits == 0 && tag.group >> kGroupBits == 0) << describe(tag);
  uint64_t bits = static_cast<uint64_t>(sender.value);
  bits = bits << kViewBits | (tag.view.value & ((1u << kViewBits) - 1));
  bits = bits << kGroupBits | tag.group;
  return bits << kPurposeBits | tag.purpose;
}

// Recent views whose late messages revoke() looks for.
constexpr uint32_t kDrainedViews = 8;

class UcxTransport;

// A message in UCX's hands. Lives until UCX has completed it, which may be after its operation has
// been given back.
struct Flight {
  UcxTransport* transport = nullptr;
  std::list<Flight>::iterator self;
  BufferPool::Buffer buffer;
  size_t size = 0;
  PendingOperation* operation = nullptr;  // null once given back
  Rank peer;
  Tag tag;
  bool is_send = false;
  void* request = nullptr;  // null before UCX has returned it and once it is complete
};

class UcxTransport final : public Transport {
 public:
  UcxTransport(Rank rank, int size, std::unique_ptr<UcxWorker> worker, const UcxTransportOptions& options);
  ~UcxTransport() override;

  // Creates the endpoints and greets everybody.
  absl::Status connect(const std::vector<std::string>& worker_addresses, const Deadline& deadline);

  Rank rank() const override { return rank_; }
  int size() const override { return static_cast<int>(peers_.size()); }
  std::unique_ptr<TransportOperation> start_send(Rank to, Tag tag,
                                                 std::span<const std::byte> bytes) override;
  std::unique_ptr<TransportOperation> start_receive(Rank from, Tag tag,
                                                    std::span<std::byte> into) override;
  absl::Status wait(std::unique_ptr<TransportOperation> operation, absl::Duration timeout) override;
  bool done(TransportOperation& operation) override;
  void revoke(View view, absl::Status reason) override;
  void close() override;

 private:
  using Lock = Leadership::Lock;

  struct Peer {
    UcxTransport* transport = nullptr;
    Rank rank;
    ucp_ep_h endpoint = nullptr;
    absl::Status lost;       // why it answers no more
    bool has_failed = false;  // reported by a callback; drive() acts upon it
    bool has_left = false;    // its goodbye has come, likewise
    bool knows_we_leave = false;
  };

  static void on_sent(void* request, ucs_status_t status, void* flight);
  static void on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info, void* flight);
  static void on_failure(void* peer, ucp_ep_h endpoint, ucs_status_t status);
  static void on_cut(void* request, ucs_status_t status, void* nothing) { ucp_request_free(request); }

  Peer& peer(Rank rank);
  bool is_revoked(const Tag& tag) const { return revoked_ && tag.view <= *revoked_; }
  Flight& new_flight(PendingOperation* operation, Rank peer, const Tag& tag, size_t size);
  void launch_send(PendingOperation* operation, Rank to, const Tag& tag, std::span<const std::byte> bytes);
  // Into the flight's buffer; `found` is a message that a probe has taken out, if any.
  void launch_receive(PendingOperation* operation, Rank from, const Tag& tag, size_t size,
                      ucp_tag_message_h found = nullptr);
  void complete(Flight& flight, ucs_status_t status, size_t received);
  void cancel_receives(Rank from);
  void let_go(PendingOperation& operation);
  void lose(Peer& peer, const absl::Status& reason);
  void cut(Peer& peer);
  void drive();
  void sweep();
  // Takes the messages that nobody has received and whose tags agree in `mask` out of UCX's queues.
  void discard_messages(uint64_t tag, uint64_t mask);
  bool work(const Deadline& deadline, Lock& lock);
  void send_to_self(PendingOperation& send);
  absl::Status create_endpoint(Peer& peer, const std::string& worker_address);
  absl::Status greet_all(const Deadline& deadline);
  bool is_unheard() const;

  const Rank rank_;
  const UcxTransportOptions options_;

  std::mutex mutex_;  // guards everything below
  std::unique_ptr<UcxWorker> worker_;
  std::vector<std::unique_ptr<Peer>> peers_;
  BufferPool pool_;
  std::list<Flight> flights_;
  std::vector<std::list<Flight>::iterator> completed_;  // of flights_; freed by sweep()
  Inbox from_self_;
  std::optional<View> revoked_;
  absl::Status revoke_reason_;
  bool closed_ = false;
  Leadership leadership_;
};

UcxTransport::UcxTransport(Rank rank, int size, std::unique_ptr<UcxWorker> worker,
                           const UcxTransportOptions& options)
    : rank_(rank), options_(options), worker_(std::move(worker)), pool_(options.pooled_bytes_max) {
  for (int32_t i = 0; i < size; ++i) {
    peers_.push_back(std::make_unique<Peer>());
    peers_.back()->transport = this;
    peers_.back()->rank = Rank(i);
  }
}

UcxTransport::~UcxTransport() {
  const Lock lock(mutex_);
  for (const auto& peer : peers_) {
    if (peer->lost.ok()) lose(*peer, Cancelled("the transport was destroyed"));
    cut(*peer);
  }
  drive();
  discard_messages(0, 0);
  const Deadline deadline(kCutMax);
  while (!flights_.empty() && !deadline.passed()) drive();
  if (!flights_.empty()) log_error("UCX has not given back every message of a closed transport");
}

UcxTransport::Peer& UcxTransport::peer(Rank rank) {
  CHECK(rank.value >= 0 && rank.value < size()) << "rank " << rank << " of " << size();
  return *peers_[static_cast<size_t>(rank.value)];
}

absl::Status UcxTransport::connect(const std::vector<std::string>& worker_addresses, const Deadline& deadline) {
  RETURN_IF_ERROR(leadership_.start());
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (peers_[i]->rank != rank_) RETURN_IF_ERROR(create_endpoint(*peers_[i], worker_addresses[i]));
  }
  return greet_all(deadline);
}

absl::Status UcxTransport::create_endpoint(Peer& peer, const std::string& worker_address) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(worker_address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {on_failure, &peer};
  const auto status = ucp_ep_create(worker_->get(), &params, &peer.endpoint);
  if (status == UCS_OK) return absl::OkStatus();
  peer.endpoint = nullptr;
  return PeerLost(peer.rank, absl::StrCat("rank ", peer.rank.value, " cannot be reached: ", ucs_status_string(status)));
}

// Establishes every connection, so that later the death of a peer breaks one.
absl::Status UcxTransport::greet_all(const Deadline& deadline) {
  std::vector<std::unique_ptr<TransportOperation>> greetings;
  std::vector<int32_t> sizes(peers_.size());
  const int32_t own_size = size();
  for (size_t i = 0; i < peers_.size(); ++i) {
    const Rank other(static_cast<int32_t>(i));
    if (other == rank_) continue;
    greetings.push_back(start_receive(other, kHello, std::as_writable_bytes(std::span(&sizes[i], 1))));
    greetings.push_back(start_send(other, kHello, std::as_bytes(std::span(&own_size, 1))));
  }
  std::vector<int32_t> silent;
  absl::Status result;
  for (auto& greeting : greetings) {
    const absl::Status status = wait(std::move(greeting), deadline.left());
    if (absl::IsDeadlineExceeded(status)) silent.push_back(accused_rank(status)->value);
    if (!status.ok() && (result.ok() || absl::IsUnavailable(status))) result = status;
  }
  if (absl::IsDeadlineExceeded(result)) {
    return Timeout(Rank(silent[0]), absl::StrCat("ranks ", absl::StrJoin(silent, ", "), " have not connected in time"));
  }
  RETURN_IF_ERROR(result);
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (static_cast<int32_t>(i) != rank_.value && sizes[i] != own_size) {
      return InvalidInput(absl::StrCat("rank ", i, " believes in ", sizes[i], " ranks, this one in ", own_size));
    }
  }
  const Lock lock(mutex_);
  for (const auto& peer : peers_) {
    if (peer->rank == rank_) continue;
    launch_receive(nullptr, peer->rank, kGoodbye, 0);
    launch_receive(nullptr, peer->rank, kGoodbyeSeen, 0);
  }
  return absl::OkStatus();
}

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
void UcxTransport::cut(Peer& peer) {
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
    cut(*peer);
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

void UcxTransport::revoke(View view, absl::Status reason) {
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

// Whether closing now could take a message or our goodbye away from a peer.
bool UcxTransport::is_unheard() const {
  const bool sends = std::any_of(flights_.begin(), flights_.end(), [&](const Flight& flight) {
    return flight.is_send && flight.request != nullptr &&
           peers_[static_cast<size_t>(flight.peer.value)]->endpoint != nullptr;
  });
  return sends || std::any_of(peers_.begin(), peers_.end(), [](const auto& peer) {
           return peer->endpoint != nullptr && peer->lost.ok() && !peer->knows_we_leave;
         });
}

void UcxTransport::close() {
  const Lock lock(mutex_);
  if (closed_) return;
  closed_ = true;
  for (const auto& peer : peers_) {
    if (peer->endpoint != nullptr && peer->lost.ok()) launch_send(nullptr, peer->rank, kGoodbye, {});
  }
  const Deadline deadline(options_.close_flush_max);
  while (is_unheard() && !deadline.passed()) {
    drive();
    pollfd watched{worker_->event_fd(), POLLIN, 0};
    const auto armed = worker_->arm();
    if (is_unheard() && armed.ok() && *armed) ::poll(&watched, 1, deadline.left_ms());
  }
  const absl::Status reason = Cancelled("the transport is closed");
  for (const auto& peer : peers_) {
    if (peer->lost.ok()) lose(*peer, reason);
  }
  for (Flight& flight : flights_) {
    if (flight.operation != nullptr) std::exchange(flight.operation, nullptr)->finish(reason);
  }
  from_self_.fail_posted(std::nullopt, reason);
  drive();
  leadership_.wake_leader();
}

class UcxListener final : public TransportListener {
 public:
  UcxListener(std::unique_ptr<UcxWorker> worker, std::string address, const UcxTransportOptions& options)
      : options_(options), worker_(std::move(worker)), address_(to_string({"ucx", this_machine(), address})) {}

  const std::string& address() const override { return address_; }

  absl::StatusOr<std::unique_ptr<Transport>> connect(Rank rank, const std::vector<std::string>& addresses,
                                                     absl::Duration timeout) override {
    if (addresses.size() > size_t{1} << kRankBits) {
      return InvalidInput(absl::StrCat("UCX tags hold ", 1 << kRankBits, " ranks, not ", addresses.size()));
    }
    std::vector<std::string> workers;
    for (const std::string& text : addresses) {
      ASSIGN_OR_RETURN(const HostAddress address, parse_address(text));
      if (address.kind != "ucx") return InvalidInput(absl::StrCat("rank ", workers.size(), " does not use UCX"));
      workers.push_back(absl::HexStringToBytes(address.detail));
    }
    auto transport = std::make_unique<UcxTransport>(rank, static_cast<int>(addresses.size()), std::move(worker_), options_);
    RETURN_IF_ERROR(transport->connect(workers, Deadline(timeout)));
    return transport;
  }

 private:
  const UcxTransportOptions options_;
  std::unique_ptr<UcxWorker> worker_;
  const std::string address_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TransportListener>> listen_ucx(const UcxTransportOptions& options) {
  ASSIGN_OR_RETURN(auto worker, UcxWorker::create(options));
  ASSIGN_OR_RETURN(std::string address, worker->address());
  return std::make_unique<UcxListener>(std::move(worker), std::move(address), options);
}

}  // namespace evermoe
