// A transport that knows whether somebody waits in it, for how long somebody has, and how much was
// sent to whom.
//
// When a job stands still, those who wait for another rank tell it apart from that rank: it is the
// one that does not wait. And who is slower than others waits less than they do.
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "comm/channel/pending_operation.h"
#include "comm/transport/sent_traffic.h"
#include "comm/transport/transport.h"
#include "env/clock.h"

namespace evermoe {

class WatchedTransport final : public Transport {
 public:
  // `inner` outlives it, and is used by others, too. Waits for operations of `groups` count; what
  // is sent counts in `sent`, whatever its group.
  WatchedTransport(Transport& inner, GroupRange groups, Clock& clock,
                   std::shared_ptr<SentTraffic> sent = std::make_shared<SentTraffic>())
      : inner_(inner), groups_(groups), clock_(clock), sent_(std::move(sent)) {}

  // Some thread is in wait() for an operation that counts. Any thread.
  bool is_waited_in() const { return waits_.load() > 0; }
  // All waits for operations that count, one after the other, of all threads. Any thread.
  absl::Duration time_waited() const { return absl::Nanoseconds(waited_.load()); }

  Rank rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::unique_ptr<TransportOperation> start_send(Rank to, Tag tag,
                                                 std::span<const std::byte> bytes) override {
    if (to != inner_.rank()) sent_->add(to, bytes.size());
    return inner_.start_send(to, tag, bytes);
  }
  std::unique_ptr<TransportOperation> start_receive(Rank from, Tag tag,
                                                    std::span<std::byte> into) override {
    return inner_.start_receive(from, tag, into);
  }
  absl::Status wait(std::unique_ptr<TransportOperation> operation,
                    absl::Duration timeout) override {
    const Tag& tag = static_cast<const PendingOperation&>(*operation).tag;
    if (!groups_.contains(tag.group)) return inner_.wait(std::move(operation), timeout);
    ++waits_;
    const absl::Duration began = clock_.now();
    const absl::Status status = inner_.wait(std::move(operation), timeout);
    waited_ += absl::ToInt64Nanoseconds(clock_.now() - began);
    --waits_;
    return status;
  }
  bool done(TransportOperation& operation) override { return inner_.done(operation); }
  int sends_under_way() const override { return inner_.sends_under_way(); }
  int64_t connections_opened() const override { return inner_.connections_opened(); }
  absl::StatusOr<ServiceMessage> receive_service_message(absl::Duration timeout) override {
    return inner_.receive_service_message(timeout);
  }
  using Transport::revoke;
  void revoke(GroupRange groups, View view, absl::Status reason) override {
    inner_.revoke(groups, view, std::move(reason));
  }
  absl::Status set_peers(const std::vector<PeerAddress>& table) override {
    return inner_.set_peers(table);
  }
  void connect(Rank peer, Traffic traffic) override { inner_.connect(peer, traffic); }
  bool is_connected(Rank peer, Traffic traffic) const override {
    return inner_.is_connected(peer, traffic);
  }
  void cut(Rank peer) override { inner_.cut(peer); }
  void close() override { inner_.close(); }

 private:
  Transport& inner_;
  const GroupRange groups_;
  Clock& clock_;
  const std::shared_ptr<SentTraffic> sent_;
  std::atomic<int> waits_ = 0;
  std::atomic<int64_t> waited_ = 0;  // nanoseconds
};

}  // namespace evermoe
