// The UCX transport itself; others see ucx_transport.h only.
//
// ucx_transport.cc brings processes together and apart, ucx_messaging.cc moves messages between.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/check.h"
#include "comm/deadline.h"
#include "comm/inbox.h"
#include "comm/leadership.h"
#include "comm/ucx_transport.h"
#include "comm/ucx_worker.h"

namespace evermoe {

// Bits of the UCX tag, from the lowest.
inline constexpr int kPurposeBits = 31;
inline constexpr int kGroupBits = 12;
inline constexpr int kViewBits = 11;
inline constexpr int kRankBits = 10;
static_assert(kPurposeBits + kGroupBits + kViewBits + kRankBits == 64);

inline constexpr uint64_t kViewMask = ((uint64_t{1} << kViewBits) - 1) << (kGroupBits + kPurposeBits);

// The last group is the transport's own: greetings and goodbyes.
inline constexpr uint16_t kOwnGroup = (1 << kGroupBits) - 1;
inline const Tag kHello{View(0), kOwnGroup, 1};
inline const Tag kGoodbye{View(0), kOwnGroup, 2};
// Answers a goodbye: who leaves before it has arrived may take it away again by closing the socket.
inline const Tag kGoodbyeSeen{View(0), kOwnGroup, 3};

inline uint64_t ucx_tag(Rank sender, const Tag& tag) {
  CHECK(tag.purpose >> kPurposeBits == 0 && tag.group >> kGroupBits == 0) << describe(tag);
  uint64_t bits = static_cast<uint64_t>(sender.value);
  bits = bits << kViewBits | (tag.view.value & ((1u << kViewBits) - 1));
  bits = bits << kGroupBits | tag.group;
  return bits << kPurposeBits | tag.purpose;
}


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
  absl::StatusOr<Letter> receive_letter(absl::Duration timeout) override;
  using Transport::revoke;
  void revoke(GroupRange groups, View view, absl::Status reason) override;
  absl::Status meet(const std::vector<PeerAddress>& table, absl::Duration timeout) override;
  void cut(Rank peer) override;
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
  void close_endpoint(Peer& peer);
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

}  // namespace evermoe
