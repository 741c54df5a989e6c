// The processes of a SimulatedNetwork and the wire between them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/simulated/simulated_blocks.h"
#include "comm/simulated/simulated_network.h"
#include "comm/simulated/simulated_process.h"
#include "comm/simulated/simulated_threads.h"

namespace evermoe {

// Threads: every method is called by whoever holds the baton of threads().
class SimulatedKernel {
 public:
  SimulatedKernel(int ranks, SimulatedNetworkOptions options);

  SimulatedThreads& threads() { return threads_; }
  const SimulatedThreads& threads() const { return threads_; }
  const SimulatedNetworkOptions& options() const { return options_; }
  int ranks() const { return ranks_; }

  SimulatedProcess& start(Rank rank, View since, std::vector<SimulatedNetwork::Thread> threads,
                          Machine machine);
  void add_thread(SimulatedProcess& process, SimulatedNetwork::Thread body);
  SimulatedProcess& process(ProcessNumber number);
  SimulatedProcess& process_at(const std::string& address);
  SimulatedProcess* running_process();

  void kill(SimulatedProcess& process);
  void kill_all();
  void stop(SimulatedProcess& process);
  void go_on(SimulatedProcess& process);
  void cut(SimulatedProcess& a, SimulatedProcess& b);
  void block(Machine from, Machine to, absl::Duration time);
  void slow_down(Machine from, Machine to, absl::Duration more, absl::Duration more_of_byte);
  void on_end(SimulatedProcess& process, std::function<void()> what);

  // What the transport of a process does. begin_call() counts a call and is ok, or why the process
  // can do nothing more.
  absl::Status begin_call(SimulatedProcess& process, char name, Rank peer, const Tag& tag,
                          size_t bytes);
  void send(SimulatedProcess& process, PendingOperation& send);
  void receive(SimulatedProcess& process, PendingOperation& receive);
  void set_peers(SimulatedProcess& process, const std::vector<PeerAddress>& table);
  // Something has been started with the rank, or will be, whose process is not connected yet.
  void need(SimulatedProcess& process, Rank rank);
  void say_goodbye(SimulatedProcess& process);

  // What has been sent between processes, and between how many pairs of them.
  const SimulatedTraffic& traffic() const { return traffic_; }
  int64_t lost_in_silence() const { return lost_in_silence_; }

 private:
  void launch(SimulatedProcess& from, SimulatedPeer& peer, PendingOperation& send);
  absl::Duration slowness(const SimulatedProcess& from, const SimulatedProcess& to,
                          size_t bytes) const;
  absl::Duration leave_line(SimulatedProcess& from, size_t bytes, absl::Duration earliest) const;
  void arrive(const std::shared_ptr<SimulatedFlight>& flight);
  // At the process, whose machine it has come to.
  void hand_to(const std::shared_ptr<SimulatedFlight>& flight);
  void name_process(SimulatedProcess& process, Rank rank, const PeerAddress& entry, View own_since);
  void forget_former(SimulatedProcess& process, Rank rank);
  void connect_if_both_agree(SimulatedProcess& process, Rank rank);
  void launch_parked(SimulatedProcess& process, Rank rank);
  // Made when the pair first exchanges something.
  std::shared_ptr<SimulatedLink> link(SimulatedProcess& process, SimulatedPeer& peer);
  void announce_end(SimulatedProcess& ended, const absl::Status& why);
  absl::Duration draw_discovery(const SimulatedProcess& process, const SimulatedProcess& lost);
  void schedule_loss(SimulatedProcess& process, SimulatedProcess& lost, uint32_t connection,
                     const absl::Status& why);
  // By news from the other end: they come behind what that has sent.
  void hear_of_loss_at(absl::Duration time, SimulatedProcess& process, SimulatedProcess& lost,
                       uint32_t connection, const absl::Status& why);
  void hear_of_loss(SimulatedProcess& process, SimulatedProcess& lost, uint32_t connection,
                    const absl::Status& why);
  void notice_loss(SimulatedProcess& process, SimulatedProcess& lost, uint32_t connection,
                   const absl::Status& why);
  // From now on something waits for the rank, which may be about to be lost.
  void watch_loss(SimulatedProcess& process, Rank rank);
  // The line between the two is blocked from now on: whether and when the process misses the rank.
  void draw_silence(SimulatedProcess& process, Rank rank);
  void lose_in_silence(SimulatedProcess& process, SimulatedProcess& silent, uint32_t connection);
  void thread_has_returned(SimulatedProcess& process);
  void schedule_on_end(SimulatedProcess& process, absl::Duration after);
  // True if the process is stopped and `what` waits until it goes on.
  bool postpone(SimulatedProcess& process, std::function<void()> what);

  const int ranks_;
  const SimulatedNetworkOptions options_;
  std::vector<std::unique_ptr<SimulatedProcess>> processes_;  // by number
  std::vector<SimulatedProcess*> present_;                    // those that have not ended
  SimulatedTraffic traffic_;
  int64_t lost_in_silence_ = 0;
  SimulatedBlocks blocks_;
  struct Slowness {
    absl::Duration more, more_of_byte;
  };
  std::map<std::pair<Machine, Machine>, Slowness> slow_;
  SimulatedThreads threads_;  // last: its threads end before what they use
};

}  // namespace evermoe
