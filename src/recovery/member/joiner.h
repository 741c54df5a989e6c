// A process that is about to take a role, before it does: keeps what the process that plays it
// gives it (LeaveOrder), first its windows and its copies of others, in the end its state.
//
// Threads: serve() has one of its own; stop() may be called from any.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "comm/transport/transport.h"
#include "protection/snapshots/snapshot_store.h"
#include "recovery/protocol/message_sender.h"

namespace evermoe {

class Joiner {
 public:
  // `transport` is a seated one, in the seat of the role in which the leaver is not, and outlives
  // it; who takes the role goes on with it. What does not fit into `bytes_max` is not kept: then
  // the role is not handed over.
  // `on_whole` hears, inside serve(), of each state that is there whole: the chunks of its slot.
  using OnWhole = std::function<void(std::vector<Chunk> whole)>;
  Joiner(Rank role, const PeerAddress& leaver, Transport& transport, int64_t bytes_max,
         OnWhole on_whole);

  // Until stop(). An error if the leaver cannot be reached by such a transport, or that cannot go
  // on. What it is told to connect with it is connected with when it has the role.
  absl::Status serve();
  void stop();
  // The same with the next message that comes.
  void stop_soon() { is_stopped_ = true; }
  // What was given, after serve() has returned.
  std::vector<Chunk> take() { return store_.take_all(); }

 private:
  absl::Status set_peers(const Neighbours& neighbours);
  void on_message(ServiceMessage message);
  void on_chunk(ServiceMessage message);
  void on_offer(const ServiceMessage& message);
  void on_connect(const ServiceMessage& message);
  void connect(Rank with, const Neighbour& as);
  void want(View view, const SlotMessage& slot);
  void acknowledge(View view, const SlotMessage& slot);

  const Rank role_;
  const PeerAddress leaver_;
  const Rank other_;  // where the leaver is
  Transport& transport_;
  MessageSender sender_;
  SnapshotStore store_;
  const OnWhole on_whole_;
  std::atomic<bool> is_stopped_ = false;
};

}  // namespace evermoe
