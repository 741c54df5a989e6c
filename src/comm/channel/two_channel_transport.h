// What the transports with a channel for messages and one for service messages have in common:
// which call goes to which channel. Inside comm/ only.
#pragma once

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "comm/channel/channel.h"
#include "comm/channel/pending_operation.h"
#include "comm/transport/transport.h"

namespace evermoe {

class TwoChannelTransport : public Transport {
 public:
  // The channels are members of the derived class.
  TwoChannelTransport(Rank rank, int size, Channel& messages, Channel& service_messages)
      : rank_(rank), size_(size), messages_(messages), service_messages_(service_messages) {}

  Rank rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<TransportOperation> start_send(Rank to, Tag tag,
                                                 std::span<const std::byte> bytes) override {
    return channel_of(tag).start_send(to, tag, bytes);
  }
  std::unique_ptr<TransportOperation> start_receive(Rank from, Tag tag,
                                                    std::span<std::byte> into) override {
    CHECK(tag.group != kServiceGroup) << "service messages come by receive_service_message()";
    return messages_.start_receive(from, tag, into);
  }
  absl::Status wait(std::unique_ptr<TransportOperation> operation,
                    absl::Duration timeout) override {
    Channel& channel = channel_of(static_cast<const PendingOperation&>(*operation).tag);
    return channel.wait(std::move(operation), timeout);
  }
  bool done(TransportOperation& operation) override {
    return channel_of(static_cast<const PendingOperation&>(operation).tag).done(operation);
  }
  int sends_under_way() const override { return messages_.sends_under_way(); }
  absl::StatusOr<ServiceMessage> receive_service_message(absl::Duration timeout) override {
    return service_messages_.receive_service_message(timeout);
  }
  using Transport::revoke;
  void revoke(GroupRange groups, View view, absl::Status reason) override {
    messages_.revoke(groups, view, reason);
  }
  void connect(Rank peer, Traffic traffic) override { of(traffic).ask_for_connection(peer); }
  bool is_connected(Rank peer, Traffic traffic) const override {
    return of(traffic).has_connection(peer);
  }
  void cut(Rank peer) override {
    if (!messages_.has_connection(peer) && !service_messages_.has_connection(peer)) return;
    vacate(peer, PeerLost(peer, absl::StrCat("the connection with rank ", peer.value, " was cut")));
  }

 protected:
  void vacate(Rank peer, const absl::Status& reason) {
    messages_.vacate(peer, reason);
    service_messages_.vacate(peer, reason);
  }

 private:
  Channel& of(Traffic traffic) const {
    return traffic == Traffic::kServiceMessages ? service_messages_ : messages_;
  }
  Channel& channel_of(const Tag& tag) const {
    return of(tag.group == kServiceGroup ? Traffic::kServiceMessages : Traffic::kMessages);
  }

  const Rank rank_;
  const int size_;
  Channel& messages_;
  Channel& service_messages_;
};

}  // namespace evermoe
