#include "comm/ucx_transport.h"

#include <poll.h>

#include <algorithm>
#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/host_address.h"
#include "comm/ucx_messaging.h"

namespace evermoe {
namespace {

// After cutting a connection its messages end within about a millisecond of progress.
constexpr absl::Duration kCutMax = absl::Seconds(2);

}  // namespace

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
    close_endpoint(*peer);
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

void UcxTransport::cut(Rank rank) {
  const Lock lock(mutex_);
  if (peer(rank).endpoint != nullptr) peer(rank).has_failed = true;
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

namespace {

class UcxListener final : public TransportListener {
 public:
  UcxListener(std::unique_ptr<UcxWorker> worker, std::string address, const UcxTransportOptions& options)
      : options_(options), worker_(std::move(worker)), address_(to_string({"ucx", this_machine(), address})) {}

  const std::string& address() const override { return address_; }

  absl::StatusOr<std::unique_ptr<Transport>> open(Rank, int, View) override { return Unsupported("open"); }
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
