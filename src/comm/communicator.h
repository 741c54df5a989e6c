// Collective and point-to-point calls among an ordered list of ranks, bound to one view.
//
// Members are addressed by their index in the list (role order). Reductions add in index order,
// whatever the arrival order, so that every member gets the same bits and every run too:
// ((x0 + x1) + x2) + ... elementwise. Every member must make the same collective calls in the same
// order. Buffers are host memory; tensor/ brings device tensors there.
//
// Among many members a small reduction goes over a tree. It does not add partial sums there, which
// would be another order: every member's contribution travels whole, in a range of its subtree's,
// to member 0, which adds all of them in index order and passes the result down. So the bits do not
// depend on the path, nor on the number of members from which on it is taken. A timeout then names
// the neighbour in the tree, who may itself wait for somebody.
//
// Each call fails with PeerLost, Timeout (after `deadline`) or Cancelled, with the accused rank;
// the communicator is then of no further use: the contents of receive buffers are undefined.
//
// Threads: one thread at a time uses a communicator. Several communicators over one transport may
// be used by several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/ids.h"
#include "comm/idle_work.h"
#include "comm/transport/transport.h"

namespace evermoe {

enum class ReduceOp { kSum, kMin, kMax };

struct CommunicatorOptions {
  View view;
  // Distinct for every communicator that shares ranks with another one in the same view.
  uint16_t group = 0;
  // How long any call waits for one message. Too short accuses slow peers, too long delays the
  // discovery of stopped ones (dead ones are reported at once, whatever this says).
  absl::Duration deadline = absl::Seconds(60);
};

// A point-to-point message in flight; wait() or destruction lets go of its buffer. Not to be waited
// for after the end of its communicator.
class PendingMessage {
 public:
  PendingMessage() = default;
  PendingMessage(PendingMessage&&) noexcept = default;
  PendingMessage& operator=(PendingMessage&& other) noexcept;
  ~PendingMessage();  // a message never waited for is withdrawn

  // Ok at once for a default-constructed one. Fails as described above.
  absl::Status wait();

 private:
  friend class Communicator;
  Transport* transport_ = nullptr;
  std::unique_ptr<TransportOperation> operation_;
  absl::Duration deadline_ = absl::ZeroDuration();
  const IdleWork* idle_work_ = nullptr;
};

class Communicator {
 public:
  // `members` are transport ranks in role order and contain the transport's own rank.
  // The transport must outlive the communicator.
  Communicator(Transport& transport, std::vector<Rank> members, CommunicatorOptions options);

  // Begins anew in another view: what is pending must have been given up (Transport::revoke). All
  // members have to do the same.
  void restart(View view);
  View view() const { return options_.view; }

  // What is done while a call waits, by the calling thread; not more calls of this communicator.
  void set_idle_work(IdleWork idle_work) { idle_work_ = std::move(idle_work); }

  int index() const { return index_; }
  int size() const { return static_cast<int>(members_.size()); }
  Rank rank_of(int index) const { return members_[static_cast<size_t>(index)]; }

  // Named messages: `name` distinguishes messages between the same two members (30 bits).
  PendingMessage start_send(int to, uint32_t name, std::span<const std::byte> bytes);
  PendingMessage start_receive(int from, uint32_t name, std::span<std::byte> into);

  absl::Status barrier();
  absl::Status broadcast(int root, std::span<std::byte> bytes);

  // Instantiated for float, double and int64_t. In place.
  template <typename T>
  absl::Status all_reduce(std::span<T> values, ReduceOp op);

  // Member i ends with the reduction of the range [begins[i], begins[i + 1]) of everybody's
  // `values`, in its own `into`, whose size is that range's. begins has size() + 1 entries.
  // `values` is not changed; `into` may be that very range of it.
  template <typename T>
  absl::Status reduce_scatter(std::span<const T> values, std::span<const int64_t> begins,
                              std::span<T> into, ReduceOp op);

  // Member i contributes the bytes [begins[i], begins[i + 1]) of `bytes`; all end with all of them.
  absl::Status all_gather(std::span<std::byte> bytes, std::span<const int64_t> begins);

  // sends[i] goes to member i, receives[i] comes from member i (sizes agreed beforehand, 0
  // allowed). sends[index()] is copied to receives[index()].
  absl::Status all_to_all(std::span<const std::span<const std::byte>> sends,
                          std::span<const std::span<std::byte>> receives);

 private:
  Tag next_collective_tag();
  PendingMessage pending(std::unique_ptr<TransportOperation> operation);
  PendingMessage send(int to, Tag tag, std::span<const std::byte> bytes);
  PendingMessage receive(int from, Tag tag, std::span<std::byte> into);

  absl::Status exchange(Tag tag, std::span<const std::span<const std::byte>> sends,
                        std::span<const std::span<std::byte>> receives);
  absl::Status gather_parts(Tag tag, std::span<std::byte> bytes, std::span<const int64_t> begins);
  absl::Status gather_over_tree(Tag tag, std::span<std::byte> bytes,
                                std::span<const int64_t> begins);
  absl::Status broadcast_over_tree(Tag tag, int root, std::span<std::byte> bytes);
  absl::Status broadcast_whole(int root, std::span<std::byte> bytes);
  absl::Status broadcast_parts(int root, std::span<std::byte> bytes);
  template <typename T, typename OnChunk>
  absl::Status reduce_part(Tag tag, std::span<const T> values, std::span<const int64_t> begins,
                           std::span<T> into, ReduceOp op, std::vector<PendingMessage>& sends,
                           OnChunk on_chunk);
  template <typename T>
  absl::Status all_reduce_whole(std::span<T> values, ReduceOp op);
  template <typename T>
  absl::Status all_reduce_over_tree(std::span<T> values, ReduceOp op);
  template <typename T>
  absl::Status all_reduce_parts(std::span<T> values, ReduceOp op);
  template <typename T>
  static std::span<const T> part_of(std::span<const T> values, std::span<const int64_t> begins,
                                    int i);

  Transport& transport_;
  const std::vector<Rank> members_;
  CommunicatorOptions options_;
  const int index_;
  IdleWork idle_work_;
  uint32_t collective_count_ = 0;
};

}  // namespace evermoe
