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
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "base/ids.h"
#include "comm/group_messages.h"
#include "comm/idle_work.h"
#include "comm/pending.h"
#include "comm/reduce.h"
#include "comm/transport/transport.h"

namespace evermoe {

class Communicator {
 public:
  // `members` are transport ranks in role order and contain the transport's own rank.
  // The transport must outlive the communicator.
  Communicator(Transport& transport, std::vector<Rank> members, CommunicatorOptions options);

  // Begins anew in another view: what is pending must have been given up (Transport::revoke). All
  // members have to do the same.
  void restart(View view) { group_.restart(view); }
  View view() const { return group_.view(); }

  // What is done while a call waits, by the calling thread; not more calls of this communicator.
  void set_idle_work(IdleWork idle_work) { group_.set_idle_work(std::move(idle_work)); }

  int index() const { return group_.index(); }
  int size() const { return group_.size(); }
  Rank rank_of(int index) const { return group_.rank_of(index); }

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

  // ---- Calls that go on while their caller computes. They count among the collective calls that
  // all members make in the same order, and are waited for in the order in which they were started,
  // before any other call: what has not been taken of an older one may stand in the way of a newer
  // one's messages. `begins` is needed only now, the rest until the end.

  // As reduce_scatter(). What has come waits for advance() or wait() to be added; of each call at
  // most kPendingWindowBytes are received ahead of that.
  static constexpr size_t kPendingWindowBytes = size_t{8} << 20;
  template <typename T>
  PendingCollective start_reduce_scatter(std::span<const T> values, std::span<const int64_t> begins,
                                         std::span<T> into, ReduceOp op);
  // As all_gather().
  PendingCollective start_all_gather(std::span<std::byte> bytes, std::span<const int64_t> begins);

  // sends[i] goes to member i, receives[i] comes from member i (sizes agreed beforehand, 0
  // allowed). sends[index()] is copied to receives[index()].
  absl::Status all_to_all(std::span<const std::span<const std::byte>> sends,
                          std::span<const std::span<std::byte>> receives);

 private:
  GroupMessages group_;
};

}  // namespace evermoe
