// A transport at whose other ends nobody is, for a process that computes steps alone to be warm
// (train/sandbox/).
//
// Every other rank is taken to say what this one says to it: a receive gets what was sent to that
// rank under the same tag, if that has the same length, and zeros else. In a collective call, where
// both sides say the same kind of thing, that is what an equal lane would say: it sends as many
// tokens, and gets as many back. Zeros are no tokens, and gradients of nothing.
//
// Nothing fails, waits, or leaves the process.
//
// Threads: any.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "comm/channel/pending_operation.h"
#include "comm/transport/transport.h"

namespace evermoe {

class SandboxTransport final : public Transport {
 public:
  // What was said and nobody has received is forgotten beyond that, the oldest first.
  static constexpr size_t kSaidBytesMax = size_t{256} << 20;
  static constexpr size_t kSaidMax = 4096;

  SandboxTransport(Rank rank, int size) : rank_(rank), size_(size) {}

  Rank rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<TransportOperation> start_send(Rank to, Tag tag,
                                                 std::span<const std::byte> bytes) override;
  std::unique_ptr<TransportOperation> start_receive(Rank from, Tag tag,
                                                    std::span<std::byte> into) override;
  absl::Status wait(std::unique_ptr<TransportOperation> operation, absl::Duration) override;
  bool done(TransportOperation&) override { return true; }
  // Whoever calls one of these serves a real job: a bug of the program (CHECK).
  absl::StatusOr<ServiceMessage> receive_service_message(absl::Duration timeout) override;
  using Transport::revoke;
  void revoke(GroupRange groups, View view, absl::Status reason) override;
  absl::Status set_peers(const std::vector<PeerAddress>& table) override;
  void connect(Rank peer, Traffic traffic) override;
  bool is_connected(Rank, Traffic) const override { return false; }
  void cut(Rank peer) override;
  void close() override {}

 private:
  struct Said {
    Rank to;
    Tag tag;
    std::vector<std::byte> bytes;
  };
  void answer(const PendingOperation& receive);

  const Rank rank_;
  const int size_;
  Mutex mutex_;
  std::deque<Said> said_ ABSL_GUARDED_BY(mutex_);
  size_t said_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace evermoe
