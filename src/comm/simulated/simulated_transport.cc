#include "comm/simulated/simulated_transport.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"

namespace evermoe {
namespace {

// Waiting takes at least this much virtual time, so that a loop of polls passes time.
constexpr absl::Duration kPoll = absl::Microseconds(1);

class SimulatedTransport final : public Transport {
 public:
  SimulatedTransport(SimulatedKernel& kernel, SimulatedProcess& process)
      : kernel_(kernel), threads_(kernel.threads()), process_(process) {}

  Rank rank() const override { return process_.rank; }
  int size() const override { return kernel_.ranks(); }
  std::unique_ptr<TransportOperation> start_send(Rank to, Tag tag,
                                                 std::span<const std::byte> bytes) override;
  std::unique_ptr<TransportOperation> start_receive(Rank from, Tag tag,
                                                    std::span<std::byte> into) override;
  absl::Status wait(std::unique_ptr<TransportOperation> operation, absl::Duration timeout) override;
  bool done(TransportOperation& operation) override;
  int sends_under_way() const override { return process_.sends_under_way; }
  int64_t connections_opened() const override { return process_.connections_opened; }
  absl::StatusOr<ServiceMessage> receive_service_message(absl::Duration timeout) override;
  using Transport::revoke;
  void revoke(GroupRange groups, View view, absl::Status reason) override;
  absl::Status set_peers(const std::vector<PeerAddress>& table) override;
  void connect(Rank peer, Traffic) override;
  bool is_connected(Rank peer, Traffic) const override {
    return process_.why_not(peer).ok() && !process_.may_connect(peer);
  }
  void cut(Rank peer) override {
    if (SimulatedProcess* const other = process_.peer(peer).process; other != nullptr)
      kernel_.cut(process_, *other);
  }
  void close() override;

 private:
  void offer_switch() {
    if (kernel_.options().switch_at_every_call) threads_.offer_switch();
  }
  void block(const PendingOperation& operation, absl::Duration timeout);

  SimulatedKernel& kernel_;
  SimulatedThreads& threads_;
  SimulatedProcess& process_;
};

std::unique_ptr<TransportOperation> SimulatedTransport::start_send(
    Rank to, Tag tag, std::span<const std::byte> bytes) {
  auto send = std::make_unique<PendingOperation>(PendingOperation::Kind::kSend, to, tag);
  send->source = bytes;
  const absl::Status able = kernel_.begin_call(process_, 'S', to, tag, bytes.size());
  if (able.ok()) {
    if (tag.group != kServiceGroup && to != rank()) send->count_in(process_.sends_under_way);
    kernel_.send(process_, *send);
    offer_switch();
  } else {
    send->finish(able);
  }
  return send;
}

std::unique_ptr<TransportOperation> SimulatedTransport::start_receive(Rank from, Tag tag,
                                                                      std::span<std::byte> into) {
  CHECK(tag.group != kServiceGroup) << "service messages come by receive_service_message()";
  auto receive = std::make_unique<PendingOperation>(PendingOperation::Kind::kReceive, from, tag);
  receive->target = into;
  const absl::Status able = kernel_.begin_call(process_, 'R', from, tag, into.size());
  if (able.ok()) {
    kernel_.receive(process_, *receive);
    offer_switch();
  } else {
    receive->finish(able);
  }
  return receive;
}

void SimulatedTransport::block(const PendingOperation& operation, absl::Duration timeout) {
  threads_.block(operation.finished, std::max(timeout, kPoll), [this, &operation] {
    const char* const what = operation.kind == PendingOperation::Kind::kSend
                                 ? " sends to rank "
                                 : " receives from rank ";
    return absl::StrCat("rank ", process_.rank.value, what, operation.peer.value, " (",
                        describe(operation.tag), ")");
  });
}

absl::Status SimulatedTransport::wait(std::unique_ptr<TransportOperation> operation,
                                      absl::Duration timeout) {
  auto& pending = static_cast<PendingOperation&>(*operation);
  const absl::Status able = kernel_.begin_call(process_, 'W', pending.peer, pending.tag, 0);
  if (able.ok() && !pending.finished) block(pending, timeout);
  if (!pending.finished) {
    process_.withdraw(pending);
    pending.finish(able.ok() ? timeout_of(pending, timeout) : able);
  }
  if (process_.group.killed) return process_.stopped;
  return able.ok() ? pending.status : able;
}

bool SimulatedTransport::done(TransportOperation& operation) {
  auto& pending = static_cast<PendingOperation&>(operation);
  const absl::Status able = kernel_.begin_call(process_, 'D', pending.peer, pending.tag, 0);
  if (able.ok() && !pending.finished) block(pending, kPoll);
  return pending.finished || !process_.stopped.ok();
}

absl::StatusOr<ServiceMessage> SimulatedTransport::receive_service_message(absl::Duration timeout) {
  RETURN_IF_ERROR(kernel_.begin_call(process_, 'L', process_.rank, {}, 0));
  CHECK(!std::exchange(process_.receives_service_message, true))
      << "two threads receive service messages";
  if (process_.has_service_message) {
    offer_switch();
  } else {
    threads_.block(process_.has_service_message, std::max(timeout, kPoll), [this] {
      return absl::StrCat("rank ", process_.rank.value, " receives service messages");
    });
  }
  process_.receives_service_message = false;
  RETURN_IF_ERROR(process_.stopped);
  if (!process_.has_service_message)
    return Timeout(absl::StrCat("no service message within ", absl::FormatDuration(timeout)));
  return process_.take_service_message();
}

void SimulatedTransport::revoke(GroupRange groups, View view, absl::Status reason) {
  const absl::Status able =
      kernel_.begin_call(process_, 'V', process_.rank, Tag{view, groups.first, groups.last}, 0);
  if (able.ok()) process_.revoke(groups, view, reason);
}

absl::Status SimulatedTransport::set_peers(const std::vector<PeerAddress>& table) {
  RETURN_IF_ERROR(kernel_.begin_call(process_, 'M', process_.rank, {}, table.size()));
  kernel_.set_peers(process_, table);
  offer_switch();
  return absl::OkStatus();
}

void SimulatedTransport::connect(Rank peer, Traffic) {
  const absl::Status able = kernel_.begin_call(process_, 'N', peer, {}, 0);
  if (able.ok() && process_.may_connect(peer)) kernel_.need(process_, peer);
}

void SimulatedTransport::close() {
  const absl::Status able = kernel_.begin_call(process_, 'C', process_.rank, {}, 0);
  if (able.ok()) kernel_.say_goodbye(process_);
}

}  // namespace

std::unique_ptr<Transport> make_simulated_transport(SimulatedKernel& kernel,
                                                    SimulatedProcess& process) {
  return std::make_unique<SimulatedTransport>(kernel, process);
}

}  // namespace evermoe
