// What the transports with a lane for messages and one for letters have in common: which call goes to
// which lane. Inside comm/ only.
#pragma once

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "comm/transport/meeting_plan.h"
#include "comm/transport/pending_operation.h"
#include "comm/transport/transport.h"

namespace evermoe {

template <typename Lane>
class TwoLaneTransport : public Transport {
 public:
  // The lanes are members of the derived class.
  TwoLaneTransport(Rank rank, int size, Lane& messages, Lane& letters)
      : rank_(rank), size_(size), messages_(messages), letters_(letters) {}

  Rank rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<TransportOperation> start_send(Rank to, Tag tag, std::span<const std::byte> bytes) override {
    return lane_of(tag).start_send(to, tag, bytes);
  }
  std::unique_ptr<TransportOperation> start_receive(Rank from, Tag tag, std::span<std::byte> into) override {
    CHECK(tag.group != kLetterGroup) << "letters come by receive_letter()";
    return messages_.start_receive(from, tag, into);
  }
  absl::Status wait(std::unique_ptr<TransportOperation> operation, absl::Duration timeout) override {
    Lane& lane = lane_of(static_cast<const PendingOperation&>(*operation).tag);
    return lane.wait(std::move(operation), timeout);
  }
  bool done(TransportOperation& operation) override {
    return lane_of(static_cast<const PendingOperation&>(operation).tag).done(operation);
  }
  absl::StatusOr<Letter> receive_letter(absl::Duration timeout) override { return letters_.receive_letter(timeout); }
  using Transport::revoke;
  void revoke(GroupRange groups, View view, absl::Status reason) override { messages_.revoke(groups, view, reason); }
  void cut(Rank peer) override {
    vacate(peer, PeerLost(peer, absl::StrCat("the connection with rank ", peer.value, " was cut")));
  }

 protected:
  void vacate(Rank peer, const absl::Status& reason) {
    messages_.vacate(peer, reason);
    letters_.vacate(peer, reason);
  }
  void vacate_dropped(const MeetingPlan& plan) {
    for (const auto& [rank, reason] : plan.dropped) vacate(rank, reason);
  }

 private:
  Lane& lane_of(const Tag& tag) { return tag.group == kLetterGroup ? letters_ : messages_; }

  const Rank rank_;
  const int size_;
  Lane& messages_;
  Lane& letters_;
};

}  // namespace evermoe
