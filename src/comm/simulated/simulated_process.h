// One simulated process: what its transport knows, and what happens to it when something arrives.
// Nothing here takes time or draws; the wire between processes is in simulated_kernel.h.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "comm/channel/inbox.h"
#include "comm/simulated/simulated_network.h"
#include "comm/simulated/simulated_threads.h"
#include "comm/transport/transport.h"

namespace evermoe {

class SimulatedProcess;

// The connection of two processes. A pair that connects anew gets a new one, and what travels on a
// former one does not arrive any more.
struct SimulatedLink {
  // What has been sent to one end.
  struct Stream {
    absl::flat_hash_map<Tag, absl::Duration, TagHash>
        last_of_tag;  // arrival; the past is cleared out
    size_t clear_at = 64;
    absl::Duration open_at;  // when this end is connected
    absl::Duration last;     // arrival of all, or open_at
  };

  Stream& towards(const SimulatedProcess& process) { return &process == ends[0] ? to[0] : to[1]; }

  std::array<const SimulatedProcess*, 2> ends{};
  std::array<Stream, 2> to;
  bool is_cut = false;  // whatever travels is lost
};

// A message that travels.
struct SimulatedFlight {
  std::shared_ptr<SimulatedLink> link;
  SimulatedProcess* from = nullptr;
  SimulatedProcess* to = nullptr;
  std::unique_ptr<KeptMessage> message;
  PendingOperation* large_send = nullptr;  // finished when the message has arrived
  bool is_dropped = false;                 // its sender died in the middle of it
};

// What a process knows of the process that plays a rank. Small, because n ranks have n * n of them.
class SimulatedPeer {
 public:
  enum class State : uint8_t {
    kNobody,      // nobody plays it, or nobody has been named
    kNamed,       // nothing has been exchanged with it yet
    kWanted,      // something waits until it has named us, too
    kConnecting,  // until turns_at(), then connected
    kConnected,
    kLosing,  // connected until turns_at(), then lost; nothing waits for that
    kLost,
  };
  // Of a pair that exchanges something or is noticed to break: most never do.
  struct Traffic {
    std::shared_ptr<SimulatedLink> link;
    Inbox inbox;
    size_t service_bytes = 0;                                            // in our box
    std::deque<std::shared_ptr<SimulatedFlight>> held_service_messages;  // that wait for room in it
    absl::Status lost;                                                   // why
  };

  State state_at(absl::Duration now) const;
  absl::Duration turns_at() const { return absl::Nanoseconds(turns_at_ns_); }
  bool is_losing() const { return state_ == State::kLosing; }
  // The beginning of time if that is long ago.
  absl::Duration opens_at() const {
    return state_ == State::kConnecting ? turns_at() : absl::ZeroDuration();
  }
  Traffic& traffic() {
    if (!traffic_) traffic_ = std::make_unique<Traffic>();
    return *traffic_;
  }
  Traffic* known_traffic() const { return traffic_.get(); }
  SimulatedLink* link() const { return traffic_ ? traffic_->link.get() : nullptr; }

  SimulatedProcess* process = nullptr;
  View since;               // of the younger one of the two
  uint32_t connection = 0;  // number of the pair's present one; 0 is none

 private:
  friend class SimulatedProcess;
  State state_ = State::kNobody;
  int64_t turns_at_ns_ = 0;
  std::unique_ptr<Traffic> traffic_;
};

class SimulatedProcess {
 public:
  SimulatedProcess(int64_t number, Rank rank, View since, Machine machine, int ranks,
                   const SimulatedThreads& clock);

  SimulatedPeer& peer(Rank of);
  const SimulatedPeer& peer(Rank of) const { return const_cast<SimulatedProcess*>(this)->peer(of); }
  SimulatedPeer::State state(Rank of) const { return peer(of).state_at(clock_.now()); }
  // Why operations with the rank fail; ok while it is connected or may be.
  absl::Status why_not(Rank of) const;
  // Whether something that has been started ends when the rank is lost.
  bool waits_for(Rank of) const;

  // Why operations of this tag fail whoever the peer is; ok if they do not.
  const absl::Status& revoked(const Tag& tag) const;
  void revoke(GroupRange groups, View view, const absl::Status& reason);

  void receive(PendingOperation& receive);
  void withdraw(PendingOperation& operation);
  // A message or service message of the present process of its rank.
  void arrive(const std::shared_ptr<SimulatedFlight>& flight);
  void put_service_message(Rank from, Tag tag, std::span<const std::byte> bytes);
  ServiceMessage take_service_message();
  // Of a service message that waits for room: its sender has died.
  void forget_held(const std::shared_ptr<SimulatedFlight>& flight);

  // Ends the pending operations with one rank, or all.
  void fail_operations(Rank with, const absl::Status& reason);
  void lose(Rank rank, const absl::Status& why);
  // Forgets the connection with the process that has played `rank` so far.
  void drop_former(Rank rank);
  void name_process(Rank rank, SimulatedProcess& other, View younger);
  void want(Rank rank);
  // Of the named process: whether something waits for a connection with it, or could.
  bool may_connect(Rank rank) const;
  // With the named process: open from `opens_at` on.
  void connect(Rank rank, uint32_t connection, absl::Duration opens_at);
  // The connected process of the rank has ended, which is noticed at `time`.
  void lose_later(Rank rank, absl::Duration time);
  // Of a rank in State::kLosing: it counts as connected again, and the caller sees to its loss.
  void keep_until_noticed(Rank rank);
  // Nothing works any more, for this reason.
  void stop_for_good(const absl::Status& reason);
  // The memory of a process whose threads have returned.
  void clear();

  bool is_alive() const { return stopped.ok(); }

  const Rank rank;
  const Machine machine;
  SimulatedThreadGroup group;
  View since;                // in which it joined, and later rejoined
  const View started_since;  // no message of it is older
  absl::Status stopped;      // why it can do nothing more: killed, closed or ended
  absl::Status farewell;     // why others lose it then
  bool ended = false;        // killed, or all threads have returned
  int threads_begun = 0;
  int threads_left = 0;  // that have not returned
  int64_t calls = 0;
  int64_t calls_after_death = 0;

  int64_t connections_opened = 0;        // Transport::connections_opened()
  bool has_service_message = false;      // or will never have one
  std::atomic<int> sends_under_way = 0;  // Transport::sends_under_way()
  bool receives_service_message = false;

  std::vector<std::shared_ptr<SimulatedFlight>> sending;  // with large_send set
  absl::Duration line_free_at;                            // the last of what was sent has left then
  std::vector<PendingOperation*> parked;         // sends that wait for a connection, in order
  std::vector<std::function<void()>> postponed;  // while the group is paused
  std::vector<std::function<void()>> on_end;
  std::unique_ptr<Transport> transport;

 private:
  struct Revocation {
    GroupRange groups;
    View view;
    absl::Status reason;
  };

  using State = SimulatedPeer::State;

  // Finishes the parked sends for which `ended_by` gives an error.
  template <typename EndedBy>
  void end_parked(EndedBy ended_by);
  void accept_service_message(SimulatedFlight& flight);

  const SimulatedThreads& clock_;
  std::vector<SimulatedPeer> peers_;
  std::deque<ServiceMessage> service_messages_;
  size_t service_bytes_ = 0;  // of these
  std::vector<Revocation> revocations_;
};

}  // namespace evermoe
