// The machines of a job in one operating-system process: threads, messages, kills and time, all
// from one seed.
//
// A simulated process plays one rank and has any number of threads, which share one Transport. Of
// all threads exactly one runs at a time; it can change only inside calls of a Transport. Who runs
// next, how long each message travels and when a death is noticed come from the seed, so a run
// repeats exactly: same seed, same interleaving, same transcript. Computing takes no virtual time.
// When every thread waits, the clock jumps to the next delivery, event or deadline.
//
// Messages of one pair and one tag stay in order; messages of different tags may overtake each
// other (service messages of one pair are one stream). Messages of up to `eager_bytes_max` are sent
// at once, larger ones when they arrive. Where a process's line is limited, what it sends leaves
// one after the other, in the order sent, and every send takes until it arrives. What a process has
// sent before it dies is still delivered; a large message that it was still sending is not.
// Messages to oneself travel, too. A call that has to wait takes at least 1 us, so that a loop of
// polls passes time.
//
// A process runs on a machine. Between two machines either direction can be blocked for a while:
// nothing arrives then, not even news of an end, and everything arrives afterwards, in the order in
// which it would have come; both directions are a partition. New connections wait for the end of
// both. As with real transports, whose keepalive wants an answer, one way is enough for an end to
// miss the other one: each end of a connection that is blocked for long loses its peer after a
// drawn time, or never, as where something is under way that TCP sends again for minutes. Once an
// end has lost its peer what travels between the two is lost, and the other end hears of it over
// the line. Not simulated: that the open direction comes to a halt, too, where no answers come.
//
// A pair connects when one of the two needs the other and both have named each other with tables
// that agree about both: same processes, same views in which they joined. The two ends are
// connected at drawn times of their own.
//
// A thread must not call its Transport while it holds a std::mutex that other threads want: it may
// hand over there, and then nobody ever runs again.
//
// Events are functions that run at a virtual time, outside any simulated process: the place of
// controllers, agents, faults and checks. They and the threads exclude each other, so they need no
// locks. They do not call Transports.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/fingerprint.h"
#include "base/ids.h"
#include "comm/transport/transport.h"

namespace evermoe {

struct SimulatedNetworkOptions {
  uint64_t seed = 0;
  absl::Duration delay_max = absl::Milliseconds(1);  // travel time, drawn evenly from 0
  absl::Duration discovery_max =
      absl::Milliseconds(5);  // from a death to its discovery by each peer
  // How long a line is blocked before one end loses its peer; RDMA gives up first, idle TCP last.
  absl::Duration silence_min = absl::Milliseconds(100);
  absl::Duration silence_max = absl::Milliseconds(1600);
  double bytes_per_second = 0;  // that a process can send in all; 0: no limit
  size_t eager_bytes_max = size_t{64} << 10;
  bool switch_at_every_call =
      true;  // may starting an operation hand over, too, and not only waiting?
  absl::Duration time_max =
      absl::Hours(24);  // run() ends then: a job that never ends is a bug to report
  bool one_core =
      true;  // keep all threads on one core: handing over is much faster; not for much computing
};

// Between processes, so far.
struct SimulatedTraffic {
  int64_t messages = 0;  // service messages among them
  int64_t bytes = 0;
  int64_t pairs = 0;        // of processes between which something was sent
  int64_t connections = 0;  // made because somebody needed them

  friend bool operator==(const SimulatedTraffic&, const SimulatedTraffic&) = default;
};

// One life of a process; numbers are never used twice.
using ProcessNumber = StrongId<struct ProcessNumberName, int64_t>;

using Machine = StrongId<struct MachineName, int32_t>;

class SimulatedKernel;

class SimulatedNetwork {
 public:
  using Thread = std::function<void(Transport&)>;

  SimulatedNetwork(int ranks, SimulatedNetworkOptions options);
  ~SimulatedNetwork();

  // Starts a process with these threads. It knows nobody until it calls set_peers(); its address
  // there is address(number). Threads that return without Transport::close() having been
  // called end the process without a goodbye once the last one has returned. To be called from
  // events, from threads, or before run().
  ProcessNumber start(Rank rank, View since, std::vector<Thread> threads,
                      Machine machine = Machine(0));
  // One more thread of a process that has not ended.
  void add_thread(ProcessNumber process, Thread thread);
  static std::string address(ProcessNumber process);

  // SIGKILL: its threads get Cancelled from this and every later call of their Transport and should
  // return; nothing they do is seen by anybody. Peers get PeerLost after a while. `on_end` of the
  // process, if set, runs as an event after that. Threads that have not had a turn never run.
  void kill(ProcessNumber process);
  // SIGSTOP and SIGCONT: its threads do not run; messages to it wait, and so do the larger ones'
  // senders. A thread that stops its own process stops at its next call.
  void stop(ProcessNumber process);
  void go_on(ProcessNumber process);
  // Breaks the connection of two processes: what travels is lost, and both get PeerLost, though
  // both live; `b` hears of it over the line. A later set_peers() with a table in which either has
  // a newer `since` joins them again; so here a process does look at its own entry (if that holds
  // its own address).
  void cut(ProcessNumber a, ProcessNumber b);
  // Nothing arrives from one machine at the other one, for `time` from now or longer if that has
  // been said before. The two differ.
  void block(Machine from, Machine to, absl::Duration time);
  // From now on what is sent from one machine to the other one travels for so much longer, and each
  // byte of it for so much more. The two differ.
  void slow_down(Machine from, Machine to, absl::Duration more, absl::Duration more_of_byte);
  bool lives(ProcessNumber process) const;  // neither killed nor ended
  // Called as an event when the last thread of a process has returned, or `discovery_max` or less
  // after it was killed (its threads may still be unwinding): what an agent sees.
  void on_end(ProcessNumber process, std::function<void()> what);

  // In a thread of a process: stands still for so long, as one that gets no processor.
  void pause(absl::Duration time);

  // The process whose thread runs now; nullopt inside events.
  std::optional<ProcessNumber> running_process() const;

  // Puts a service message into a process's box, as from itself (ServiceMessage::from is its own
  // rank): what its control channel does. Dropped if the process has ended or closed its transport.
  // `tag` is of kServiceGroup.
  void deliver(ProcessNumber process, Tag tag, std::span<const std::byte> bytes);

  // Runs `event` at virtual time now() + `after`; events of one time run in order of creation.
  void after(absl::Duration after, std::function<void()> event);

  // Runs until every thread has returned and no event is left, or end() was called, or time_max.
  // After end() or time_max all processes are killed and their threads joined; events do not run
  // any more. True if it ended by itself or by end(); false at time_max, and if all threads wait
  // for ever and no event is left: waiting() then says who waited for what. To be called once.
  bool run();
  void end();

  absl::Duration now() const;
  uint64_t draw(uint64_t bound);  // from the seed: 0 .. bound - 1; for events and faults
  int64_t calls(ProcessNumber process) const;  // of its Transport, so far
  Fingerprint transcript() const;              // of everything that happened
  SimulatedTraffic traffic() const;
  int64_t lost_in_silence() const;  // peers, by ends of connections that were blocked

  // Who waits for what, for people: now, or when run() gave up and returned false.
  std::string waiting() const;
  int64_t switches() const;  // from thread to thread, so far

 private:
  std::unique_ptr<SimulatedKernel> kernel_;
};

}  // namespace evermoe
